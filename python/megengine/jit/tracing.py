"""trace: the first call of a function is recorded, later ones run from the record."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, NoReturn

from .._core import Graph, GraphNode, GraphValue, TraceError, TracePause, Tracer
from ..tensor import Tensor
from .config import DTRConfig, GraphOptimizationConfig, SublinearMemoryConfig
from .profile import profile_of
from .recording import tensors_in

if TYPE_CHECKING:
    from .dump import CompGraphDumpResult

__all__ = ["TraceError", "exclude_from_trace", "partial_trace", "trace", "xla_trace"]


@contextmanager
def exclude_from_trace() -> Iterator[None]:
    """Inside a traced function, runs the ops of a ``with`` block as they are called, each time.

    Outside of one it does nothing.

    >>> import megengine as mge
    >>> from megengine.jit import exclude_from_trace, trace
    >>> @trace
    ... def f(x):
    ...     y = x * 2
    ...     with exclude_from_trace():
    ...         z = y + 1
    ...     return z * y
    >>> f(mge.tensor([3.0]))
    Tensor([42.], device=xpux:0)
    """
    pause = TracePause()
    pause.enter()
    try:
        yield
    finally:
        pause.exit()


def _restored(kind: type[trace], state: dict[str, Any]) -> trace:
    made: trace = object.__new__(kind)
    vars(made).update(state)
    made._tracer = Tracer(**made._kept)
    return made


class trace:  # noqa: N801 - the name that programs use
    """Wraps a function so that its ops run from a record.

    The first call runs as ever and is recorded. In later calls with Tensors of the same shapes and
    dtypes, ops are only compared with the record; what they compute runs, without Python and
    without what nobody uses, when a value is looked at (``numpy()``, ``item()``, printing, a
    branch) and when the function returns. Results are those of the plain function, in every call:

    * The Python code of the function runs in each call, so that counters, prints, schedules of the
      learning rate and random numbers do what they do without ``trace``.
    * Other shapes or dtypes are recorded on their own: 64 of them are kept, the ones that were used
      last. So is each way that the code takes through branches: 16 of them.
    * Tensors that are not arguments (parameters, globals) are read anew in each call; parameters,
      running statistics and gradients are updated as without ``trace``. So are numbers and NumPy
      arrays, and whatever else the function takes or returns.

    Inside another traced call, a call is a part of that one. Calls on several threads do not
    disturb each other; while kernels run, other Python threads go on.

    Args:
        function: what to wrap: a function, a method or a Module. Left out where the others are
            given to a decorator, ``@trace(symbolic=True)``.
        symbolic: accepted; one way of running serves both of its values.
        capture_as_const: lets :meth:`dump` write the function into a file. Calls read Tensors from
            outside anew all the same.
        record_only: records each call and runs none from the record.
        sublinear_memory_config: accepted, see :class:`SublinearMemoryConfig`.
        dtr_config: accepted, see :class:`DTRConfig`.
        profiling: notes how long each op takes, for :meth:`get_profile`.
        opt_level: accepted, 0 to 4.
        graph_opt_config: accepted, see :class:`GraphOptimizationConfig`.
        symbolic_shape: accepted: shapes are tuples of integers in traced functions too. What is
            computed from them follows the inputs of a dumped graph.
        without_host: accepted: the Python code of the function runs in each call nevertheless.

    Raises:
        TypeError: for a function that cannot be called.
        ValueError: for an ``opt_level`` outside 0 ... 4.
        TraceError: on reading a value of a traced call that has failed before it was computed, or
            one that is not computed yet on another thread than the call's.

    An error that depends on what Tensors hold (an index out of range) is raised when the values are
    looked at or the function returns; its message says which line called the op.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> from megengine.jit import trace
    >>> @trace(symbolic=True)
    ... def f(x):
    ...     return F.sum(x * x)
    >>> f(mge.tensor([1.0, 2.0])), f(mge.tensor([3.0, 4.0]))
    (Tensor(5.0, device=xpux:0), Tensor(25.0, device=xpux:0))
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Without a function, a decorator that takes one."""
        if not args and "function" not in kwargs:
            return functools.partial(cls, **kwargs)
        return super().__new__(cls)

    def __init__(
        self,
        function: Callable[..., Any],
        symbolic: bool = False,
        capture_as_const: bool = False,
        record_only: bool = False,
        sublinear_memory_config: SublinearMemoryConfig | None = None,
        dtr_config: DTRConfig | None = None,
        profiling: bool = False,
        opt_level: int = 2,
        graph_opt_config: GraphOptimizationConfig | None = None,
        symbolic_shape: bool = True,
        without_host: bool = False,
    ) -> None:
        if not callable(function):
            raise TypeError(f"trace: expected a function, got {type(function).__name__}")
        if opt_level not in range(5):
            raise ValueError(f"trace: expected an opt_level of 0 to 4, got {opt_level!r}")
        functools.update_wrapper(self, function, updated=())
        self._symbolic = symbolic
        self._capture_as_const = capture_as_const
        self._without_host = without_host
        self._kept = {"record_only": record_only, "profiling": profiling}
        self._tracer = Tracer(**self._kept)
        kind = type(self)
        self._last_call: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # for dump
        self._has_hooks = (
            kind.setup_env is not trace.setup_env or kind.unset_env is not trace.unset_env
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function; inside another traced call it is a part of that one."""
        if self._capture_as_const:
            self._last_call = args, kwargs
        if not self._has_hooks:
            return self._tracer.call(self.__wrapped__, args, kwargs)
        self.setup_env()
        try:
            return self._tracer.call(self.__wrapped__, args, kwargs)
        finally:
            self.unset_env()

    __wrapped__: Callable[..., Any]

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, and what pickle writes, has the function and no records."""
        return _restored, (type(self), {k: v for k, v in vars(self).items() if k != "_tracer"})

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A traced method is bound to its object; all objects share the records."""
        return self if instance is None else functools.partial(self, instance)

    # ---- what was recorded

    def graphs(self) -> list[str]:
        """The recorded ops as text: one for each set of shapes and each way through branches."""
        return self._tracer.texts()

    def _last_graph(self) -> Graph:
        return self._tracer.last_graph() or Graph()

    @property
    def ops(self) -> list[GraphNode]:
        """The ops of the last call, in order; empty before the first one.

        >>> import megengine as mge
        >>> from megengine.jit import trace
        >>> f = trace(lambda x: mge.functional.exp(x) + 1)
        >>> f(mge.tensor([0.0]))
        Tensor([2.], device=xpux:0)
        >>> [(op.kind, op.inputs, op.outputs) for op in f.ops]
        [('Elemwise', (0,), (1,)), ('Elemwise', (1, 2), (3,))]
        >>> [(v.shape, v.external) for v in f.vars]
        [((1,), True), ((1,), False), ((), True), ((1,), False)]
        """
        return self._last_graph().nodes

    @property
    def vars(self) -> list[GraphValue]:
        """The values of the last call, by id; those that no op made are ``external``."""
        return self._last_graph().values

    def get_profile(self) -> dict[str, Any]:
        """How long each op of the last call took, in a function traced with ``profiling=True``.

        Returns:
            A dict of

            * ``profiler``: with ``device`` and ``host``, a dict from the number of an op, as a
              string, to a dict of its device and its ``start``, ``kern`` (the same here) and
              ``end``, in seconds since the call began; ``opr_footprint``, from that number to the
              op's ``param``, ``in_shapes``, ``out_shapes``, the bytes of ``memory`` that it reads
              and writes, and its ``computation`` in multiplications and additions (None where that
              is not known); ``opr_internal_pf``, empty.
            * ``graph_exec``: with ``comp_seq``, the numbers in the order in which they ran;
              ``operator``, from the number to its ``type``.
            * ``kinds``: by kind of op, the longest first: how many ran (``count``), and the sum of
              their times (``seconds``).

        Raises:
            TraceError: without ``profiling=True``, and before the first call.

        >>> import megengine as mge
        >>> from megengine.jit import trace
        >>> f = trace(lambda x: mge.functional.sum(x * 2), profiling=True)
        >>> f(mge.tensor([1.0, 2.0]))
        Tensor(6.0, device=xpux:0)
        >>> profile = f.get_profile()
        >>> order = profile["graph_exec"]["comp_seq"]
        >>> [profile["graph_exec"]["operator"][i]["type"] for i in order]
        ['Elemwise', 'Reduce']
        >>> profile["profiler"]["opr_footprint"]["0"]["computation"]
        2
        """
        samples = self._tracer.samples()
        if samples is None:
            raise TraceError("get_profile: there are no times; trace(function, profiling=True)")
        if self._tracer.last_graph() is None:
            raise TraceError("get_profile: there are no times before the first call")
        return profile_of(samples)

    # ---- settings

    @property
    def without_host(self) -> bool:
        """As it was given."""
        return self._without_host

    @property
    def check_external(self) -> bool:
        """True: each call checks that Tensors from outside are such as the record takes."""
        return True

    def setup_without_host(self) -> None:
        """Sets :attr:`without_host`."""
        self._without_host = True

    def setup_env(self) -> None:
        """Called before each call; nothing, for classes that derive from this one to override."""

    def unset_env(self) -> None:
        """Called after each call, also one that raised; nothing, as :meth:`setup_env`."""

    def convert_optimizer_state_to_tensor(self, *args: Any, **kwargs: Any) -> None:
        """Leaves Optimizers as they are: their numbers are read in each call.

        In the original, numbers of traced functions are constants, so that learning rates had to
        become Tensors before a schedule could change them.

        Raises:
            TypeError: for what is no Optimizer.
        """
        from ..optimizer import Optimizer

        for value in (*args, *kwargs.values()):
            if not isinstance(value, Optimizer):
                raise TypeError(
                    "convert_optimizer_state_to_tensor: expected an Optimizer, got "
                    f"{type(value).__name__}"
                )

    # ---- the parts of a call

    def flatten_inputs(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """The Tensors among arguments: positional ones first, those in lists, tuples and dicts too.

        >>> import megengine as mge
        >>> from megengine.jit import trace
        >>> a, b, c = mge.tensor(1.0), mge.tensor(2.0), mge.tensor(3.0)
        >>> trace(print).flatten_inputs([a, 5], c, scale={"x": b})
        [Tensor(1.0, device=xpux:0), Tensor(3.0, device=xpux:0), Tensor(2.0, device=xpux:0)]
        """
        return list(tensors_in((args, kwargs)))

    def trace_normal(self, *args: Any, **kwargs: Any) -> Any:
        """The same as a call: there is one way of running."""
        return self(*args, **kwargs)

    def trace_without_host(self, *args: Any, **kwargs: Any) -> Any:
        """The same as a call: there is one way of running."""
        return self(*args, **kwargs)

    def trace_without_host_overall(self, *args: Any, **kwargs: Any) -> Any:
        """The same as a call: there is one way of running."""
        return self(*args, **kwargs)

    def setup_io_without_trace(self, inputs: Any, outputs: Any) -> NoReturn:
        """Not supported: inputs and outputs are found as the function runs.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "trace.setup_io_without_trace: inputs and outputs are found as the function runs; "
            "give what is an input to the call"
        )

    def compile(self) -> NoReturn:
        """Not supported: a record is compiled when a call first runs from it.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "trace.compile: a record is compiled when a call first runs from it; call the function"
        )

    def execute(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not supported: there is no record that runs without the Python code of the function.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "trace.execute: the Python code of the function runs in each call; call the function"
        )

    def compile_and_exec(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not supported, as :meth:`compile` and :meth:`execute`.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "trace.compile_and_exec: a record is compiled when a call first runs from it; call the "
            "function"
        )

    def dump(
        self,
        file: str | os.PathLike[str] | IO[bytes],
        arg_names: str | list[str] | None = None,
        output_names: str | list[str] | None = None,
        append: bool = False,
        keep_var_name: int = 1,
        keep_opr_name: bool = False,
        keep_param_name: bool = False,
        keep_opr_priority: bool = False,
        no_change_graph: bool = False,
        strip_info_file: str | os.PathLike[str] | None = None,
        append_json: bool = False,
        optimize_for_inference: bool = True,
        user_info: Any = None,
        enable_metadata: bool = True,
        input_data: Any = None,
        repeat: int = 1,
        silent: bool = False,
        no_assert: bool = False,
        maxerr: float = 0.0001,
        resize_input: bool = False,
        input_transform: Any = None,
        dump_format: str | None = None,
        model_version: int = 2,
        **kwargs: Any,
    ) -> CompGraphDumpResult:
        """Writes the function into a file, which ``utils.comp_graph_tools.GraphInference`` runs.

        The function is called again, with the arguments of its last call, and what it does then is
        what the file holds: its ops, with the parameters and other Tensors from outside as
        constants. What Python computes from sizes (``x.shape``) follows them when the file is run
        with others. To check that, the function is called once more with one row more in the batch,
        for each other size with twice as many elements, and with all of them changed; where that
        does not work, running the file with another size raises an error that says why. The graph
        is written as it is, and optimised when it is loaded.

        Args:
            file: the name of a file, which is written aside and renamed, or a file open for writing
                bytes.
            arg_names: names of the inputs: ``arg_0``, ... and the names of keyword arguments
                without it.
            output_names: names of the outputs: without it, the keys of a dict that the function
                returns, or the kinds of the ops that make them.
            append: keep what the named file holds, and put the graph after it.
            keep_var_name: 0 drops the names of parameters and buffers, as Modules call them.
            keep_opr_name: accepted: ops have no names of their own.
            keep_param_name: keeps them with ``keep_var_name=0``, too.
            keep_opr_priority: accepted: ops run in the order in which they were called.
            no_change_graph: accepted: the graph is written as it is.
            strip_info_file: a JSON file that gets the kinds of the ops and the dtypes in the graph.
            append_json: add to that file instead.
            optimize_for_inference: noted in the file; graphs are optimised when they are loaded.
            user_info: numbers, text, arrays and containers of them, to be kept in the file.
            enable_metadata: note in the file which version of OpenMGE wrote it.
            input_data: not supported, like ``resize_input`` and ``input_transform``: files hold no
                test cases.
            repeat: accepted, like ``silent``, ``no_assert`` and ``maxerr``: they are about test
                cases.
            silent: see ``repeat``.
            no_assert: see ``repeat``.
            maxerr: see ``repeat``.
            resize_input: see ``input_data``.
            input_transform: see ``input_data``.
            dump_format: must be None: files in MegEngine's own formats are not written.
            model_version: accepted: there is one version of the format.
            kwargs: the reference's ``enable_nchw44`` and other choices of layout are accepted, and
                change nothing.

        Returns:
            A named tuple of ``nr_opr`` (ops, inputs and constants), ``tot_bytes``,
            ``tensor_value_bytes``, ``content_hash``, and the names of ``inputs``, ``outputs`` and
            ``params``.

        Raises:
            ValueError: without ``capture_as_const=True``, before the first call, for a result
                without Tensors, for names that do not fit, and for a model in training mode.
            NotImplementedError: for what is not supported, see above.

        >>> import io
        >>> import megengine as mge
        >>> from megengine.jit import trace
        >>> from megengine.utils.comp_graph_tools import GraphInference
        >>> weight = mge.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> f = trace(lambda x: mge.functional.matmul(x, weight), capture_as_const=True)
        >>> f(mge.tensor([[1.0, 1.0]]))
        Tensor([[4. 6.]], device=xpux:0)
        >>> file = io.BytesIO()
        >>> f.dump(file, arg_names=["data"], output_names=["score"]).inputs
        ['data']
        >>> _ = file.seek(0)
        >>> GraphInference(file).run([[1, 0], [0, 1]])["score"]
        array([[1., 2.],
               [3., 4.]], dtype=float32)
        """
        from .dump import DumpOptions, check_inference, check_unsupported, dump

        check_unsupported(input_data, resize_input, input_transform, dump_format, kwargs)
        if not self._capture_as_const:
            raise ValueError(
                "trace.dump: expected trace(..., capture_as_const=True): the file holds Tensors "
                "from outside as constants"
            )
        if self._last_call is None:
            raise ValueError(
                "trace.dump: call the traced function first, with arguments as examples"
            )
        check_inference(self.ops)
        options = DumpOptions(
            arg_names,
            output_names,
            append,
            keep_var_name,
            keep_param_name,
            strip_info_file,
            append_json,
            user_info,
            enable_metadata,
            optimize_for_inference,
        )
        return dump(self.__wrapped__, *self._last_call, file, options)


def partial_trace(
    func: Callable[..., Any] | None = None,
    backend: str = "default",
    without_host: bool = True,
    **trace_options: Any,
) -> Any:
    """Traces a part of a program, such as the ``forward`` of a module in an untraced training step.

    A GradManager outside of the function follows it as it does without tracing. The backward pass
    is then not part of what is traced: trace the function that calls ``backward`` for that.

    Args:
        func: a function, a method or a Module; left out in a decorator with arguments.
        backend: ``"default"``.
        without_host: as in :class:`trace`.
        trace_options: other arguments of :class:`trace`.

    Returns:
        :class:`trace` of the function.

    Raises:
        NotImplementedError: for the backend ``"xla"``, which there is not.
        ValueError: for other names.

    >>> import megengine as mge
    >>> from megengine.jit import partial_trace
    >>> @partial_trace
    ... def f(x):
    ...     return x * 2 + 1
    >>> f(mge.tensor([1.0])), f(mge.tensor([2.0]))
    (Tensor([3.], device=xpux:0), Tensor([5.], device=xpux:0))
    """
    if backend == "xla":
        raise NotImplementedError("partial_trace: there is no XLA; take backend='default'")
    if backend != "default":
        raise ValueError(f"partial_trace: expected the backend 'default', got {backend!r}")
    options = {"without_host": without_host, **trace_options}
    if func is None:
        return functools.partial(partial_trace, backend=backend, **options)
    return trace(func, **options)


def _no_xla(what: str) -> NoReturn:
    raise NotImplementedError(f"{what}: there is no XLA; trace() runs functions from a record")


class xla_trace(trace):  # noqa: N801 - the name that programs use
    """Not supported: there is no XLA. :class:`trace` runs functions from a record.

    Raises:
        NotImplementedError: always.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        without_host: bool = True,
        symbolic_shape: bool = False,
        **kwargs: Any,
    ) -> None:
        _no_xla("xla_trace")

    def convert_params_to_xla(self) -> NoReturn:
        """Raises NotImplementedError."""
        _no_xla("xla_trace.convert_params_to_xla")

    def prepare_xla_inputs(self, tensors: Any) -> NoReturn:
        """Raises NotImplementedError."""
        _no_xla("xla_trace.prepare_xla_inputs")

    def to_dlpack(self, x: Any, take_ownership: bool = True) -> NoReturn:
        """Raises NotImplementedError."""
        _no_xla("xla_trace.to_dlpack")
