"""The base class of everything that holds parameters."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from ..tensor import Parameter, Tensor
from ..utils.all_errors import raise_all
from ..utils.hook import HookHandler

StateDict = Mapping[str, Any] | Callable[[str, Tensor], np.ndarray | None]

# Float64 and int64 arrays become float32 and int32 unless a tensor has such a dtype by choice.
_WIDE_DTYPES = (np.dtype("float64"), np.dtype("int64"))


def _expand(key: str, value: Any) -> Iterator[tuple[str, Tensor | Module]]:
    """The tensors and modules in an attribute: itself, or those in lists, tuples and dicts."""
    if isinstance(value, (Tensor, Module)):
        yield key, value
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _expand(f"{key}.{i}", item)
    elif isinstance(value, dict):
        for name in sorted(value, key=str):
            for found in _expand(f"{key}.{name}", value[name]):
                assert isinstance(name, str), (
                    f"keys for Tensor and Module must be str, error key: {name}"
                )
                yield found


_expand_structure = _expand  # the name by which programs that walk a module's attributes import it


# Gets each module that is called, while a recording asks for them: see jit.recording.
_called: list[Module] | None = None


def _holds_module(value: Any) -> bool:
    return any(isinstance(item, Module) for _, item in _expand("", value))


def _squeezed(shape: Iterable[int]) -> tuple[int, ...]:
    return tuple(d for d in shape if d != 1)


class Module(metaclass=ABCMeta):
    """A piece of a network: parameters, buffers, sub-modules, and how to apply them.

    Write a class with ``__init__`` (which calls ``super().__init__()`` first and assigns layers and
    parameters to attributes) and ``forward``. Attributes may also be lists, tuples and dicts with
    str keys, nested at will; what they hold is found under dotted names such as ``blocks.0.conv``.

    Each :class:`.Parameter` found is trained; any other :class:`.Tensor` is a *buffer*: saved with
    the module, not trained.

    Args:
        name: name of the module, a non-empty str.

    >>> import numpy as np
    >>> import megengine.module as M
    >>> class Scale(M.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = Parameter([2.0])
    ...
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> net = Scale()
    >>> net(Tensor([1.0, 3.0]))
    Tensor([2. 6.], device=xpux:0)
    >>> [name for name, _ in net.named_parameters()]
    ['factor']
    """

    # Most norm layers show their tensors as vectors in state dicts, and take both shapes.
    _flat_state: ClassVar[bool] = False

    def __init__(self, name: str | None = None):
        assert name is None or (isinstance(name, str) and name.strip()), (
            "Module's name must be a non-empty string"
        )
        # Names of the attributes that may hold modules, in the order in which repr shows them.
        self._modules: list[str] = []
        self.name = name
        self.training = True
        self.quantize_disabled = False
        self._forward_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._forward_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._name: str | None = None
        self._short_name: str | None = None

    @abstractmethod
    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Computes the outputs. Call the module itself, which also runs the hooks."""

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """Runs the pre-hooks, :meth:`forward` and the hooks."""
        if _called is not None:
            _called.append(self)
        if self._forward_pre_hooks:
            for hook in list(self._forward_pre_hooks.values()):
                changed = hook(self, inputs)
                if changed is not None:
                    inputs = changed if isinstance(changed, tuple) else (changed,)
        outputs = self.forward(*inputs, **kwargs)
        if self._forward_hooks:
            for hook in list(self._forward_hooks.values()):
                changed = hook(self, inputs, outputs)
                if changed is not None:
                    outputs = changed
        return outputs

    # ---- hooks ---------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookHandler:
        """Has ``hook(module, inputs)`` called before :meth:`forward`, in the order of registration.

        ``inputs`` is the tuple of positional arguments. Where the hook returns something, it takes
        their place (what is not a tuple is wrapped in one).

        Returns:
            a handle whose ``remove()`` takes the hook off.
        """
        return HookHandler(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> HookHandler:
        """Has ``hook(module, inputs, outputs)`` called after :meth:`forward`.

        Where the hook returns something, it takes the place of the outputs.

        Returns:
            a handle whose ``remove()`` takes the hook off.
        """
        return HookHandler(self._forward_hooks, hook)

    # ---- attributes ----------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (Module, list, tuple, dict)) and name[0] != "_":
            modules = self.__dict__.get("_modules")
            if modules is None:
                if _holds_module(value):
                    raise AttributeError("cannot assign module before Module.__init__() call")
            elif name not in modules:
                modules.append(name)
            for key, item in _expand(name, value):
                if isinstance(item, Module):
                    item._short_name = item._name = key
        elif "_modules" in self.__dict__ and name in self._modules:
            self._modules.remove(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        if name in self._modules:
            self._modules.remove(name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A module pickled by an older release may lack what has been added since.
        for name in ("_name", "_short_name", "name"):
            self.__dict__.setdefault(name, None)
        self.__dict__.setdefault("quantize_disabled", False)
        self.__dict__.update(state)

    # ---- what it holds -------------------------------------------------------------------------

    def _leaves(
        self, prefix: str, recursive: bool, seen: set[int]
    ) -> Iterator[tuple[str, Any, Module]]:
        """(name, item, module that holds it) for tensors and modules, each once, sorted by name."""
        attributes = self.__dict__
        for attribute in sorted(attributes):
            for key, item in _expand(prefix + attribute, attributes[attribute]):
                if id(item) in seen:
                    continue
                seen.add(id(item))
                yield key, item, self
                if recursive and isinstance(item, Module):
                    yield from item._leaves(key + ".", recursive, seen)

    def _named(
        self, kind: Callable[[Any], bool], prefix: str | None, recursive: bool, with_parent: bool
    ) -> Iterator[Any]:
        for key, item, parent in self._leaves(
            f"{prefix}." if prefix else "", recursive, {id(self)}
        ):
            if kind(item):
                yield (key, item, parent) if with_parent else (key, item)

    def named_tensors(
        self,
        prefix: str | None = None,
        recursive: bool = True,
        *,
        with_parent: bool = False,
    ) -> Iterator[tuple[str, Tensor]]:
        """(name, tensor) of all parameters and buffers, each tensor once.

        Args:
            prefix: put before each name, with a dot.
            recursive: whether to go into sub-modules.
            with_parent: give (name, tensor, module that holds it) instead.
        """
        return self._named(_is_tensor, prefix, recursive, with_parent)

    def named_parameters(
        self,
        prefix: str | None = None,
        recursive: bool = True,
        *,
        with_parent: bool = False,
        requires_grad: bool | None = None,
    ) -> Iterator[tuple[str, Parameter]]:
        """(name, parameter) of all parameters; arguments as :meth:`named_tensors`.

        ``requires_grad`` is taken for old programs and means nothing.
        """
        return self._named(_is_parameter, prefix, recursive, with_parent)

    def named_buffers(
        self,
        prefix: str | None = None,
        recursive: bool = True,
        *,
        with_parent: bool = False,
    ) -> Iterator[tuple[str, Tensor]]:
        """(name, tensor) of all buffers; arguments as :meth:`named_tensors`."""
        return self._named(_is_buffer, prefix, recursive, with_parent)

    def named_modules(
        self,
        prefix: str | None = None,
        *,
        recursive: bool = True,
        with_parent: bool = False,
    ) -> Iterator[tuple[str, Module]]:
        """(name, module) of this module, whose name is ``prefix`` or empty, and all inside it."""
        own: Any = (prefix or "", self)
        yield (*own, None) if with_parent else own
        yield from self._named(_is_module, prefix, recursive, with_parent)

    def named_children(
        self, prefix: str | None = None, *, with_parent: bool = False
    ) -> Iterator[tuple[str, Module]]:
        """(name, module) of the modules that attributes of this one hold."""
        return self._named(_is_module, prefix, recursive=False, with_parent=with_parent)

    def tensors(self, recursive: bool = True, **kwargs: Any) -> Iterator[Tensor]:
        """All parameters and buffers; arguments as :meth:`named_tensors`."""
        return _without_names(self.named_tensors(recursive=recursive, **kwargs))

    def parameters(self, recursive: bool = True, **kwargs: Any) -> Iterator[Parameter]:
        """All parameters; arguments as :meth:`named_tensors`.

        >>> import megengine.module as M
        >>> [p.shape for p in M.Linear(3, 2).parameters()]
        [(2,), (2, 3)]
        """
        return _without_names(self.named_parameters(recursive=recursive, **kwargs))

    def buffers(self, recursive: bool = True, **kwargs: Any) -> Iterator[Tensor]:
        """All buffers; arguments as :meth:`named_tensors`."""
        return _without_names(self.named_buffers(recursive=recursive, **kwargs))

    def modules(self, **kwargs: Any) -> Iterator[Module]:
        """This module and all inside it."""
        return _without_names(self.named_modules(**kwargs))

    def children(self, **kwargs: Any) -> Iterator[Module]:
        """The modules that attributes of this one hold."""
        return _without_names(self.named_children(**kwargs))

    # ---- what is done to all of it -------------------------------------------------------------

    def apply(self, fn: Callable[[Module], Any]) -> None:
        """Calls ``fn`` on this module and all inside it."""
        for module in self.modules():
            fn(module)

    def zero_grad(self) -> None:
        """Sets all gradients to zeros. Deprecated: call ``clear_grad`` of the optimizer."""
        warnings.warn(
            "Module.zero_grad is deprecated: use Optimizer.clear_grad",
            DeprecationWarning,
            stacklevel=2,
        )
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad.reset_zero()

    def train(self, mode: bool = True, recursive: bool = True) -> None:
        """Sets training mode (``mode``), which batch norm and dropout look at, or evaluation mode.

        Args:
            mode: training, or evaluation.
            recursive: whether to set the modules inside too.
        """
        self.training = mode
        if recursive:
            for module in self.modules():
                module.training = mode

    def eval(self) -> None:
        """Sets evaluation mode: ``train(False)``."""
        self.train(False)

    def disable_quantize(self, value: bool = True) -> None:
        """Keeps this module and all inside it out of a later quantisation (or lets them in)."""
        for module in self.modules():
            module.quantize_disabled = value

    def replace_param(
        self, params: dict[int, Parameter], start_pos: int, seen: set[int] | None = None
    ) -> int:
        """Gives the parameters at these positions, from ``start_pos`` on, the values of others.

        Deprecated: use :meth:`load_state_dict`.

        Returns:
            how many parameters this module has.
        """
        position = start_pos
        for key, parameter in self.named_parameters():
            if position in params:
                new = params[position]
                assert tuple(new.shape) == tuple(parameter.shape), (
                    f"param `{key}` shape mismatch, should be {tuple(parameter.shape)}, "
                    f"get {tuple(new.shape)}"
                )
                parameter._reset(new)
            position += 1
        return position - start_pos

    # ---- state dicts ---------------------------------------------------------------------------

    def _owned_tensors(
        self, prefix: str = "", parents: frozenset[int] = frozenset()
    ) -> Iterator[tuple[str, Tensor, Module]]:
        """(name, tensor, owner) of what a state dict holds.

        What two modules share is listed for both, so that the file can also be loaded into a
        network that does not share it. What one module holds twice is listed once.
        """
        for key, tensor in self.named_tensors(recursive=False):
            yield prefix + key, tensor, self
        parents |= {id(self)}
        for key, module in self.named_children():
            if id(module) not in parents:
                yield from module._owned_tensors(f"{prefix}{key}.", parents)

    def state_dict(
        self, rst: Any = None, prefix: str = "", keep_var: bool = False
    ) -> OrderedDict[str, Any]:
        """The values of all parameters and buffers, by name.

        Args:
            rst: not used; old programs pass it.
            prefix: put before each name (without a dot).
            keep_var: give the tensors instead of read-only arrays.

        Returns:
            an ordered dict. Batch and layer norm show tensors of several axes as vectors.

        >>> import megengine.module as M
        >>> {name: value.shape for name, value in M.BatchNorm2d(3).state_dict().items()}
        {'bias': (3,), 'running_mean': (3,), 'running_var': (3,), 'weight': (3,)}
        """
        state: OrderedDict[str, Any] = OrderedDict()
        for key, tensor, owner in self._owned_tensors(prefix):
            shape = tuple(tensor.shape)
            value: Any = tensor if keep_var else tensor.numpy()
            if owner._flat_state and len(shape) != 1:
                value = value.reshape(tensor.size)
            state[key] = value
        return state

    def load_state_dict(self, state_dict: StateDict, strict: bool = True) -> None:
        """Sets parameters and buffers to the values of a state dict.

        All values are checked before the first is set, and the error names all that does not fit. A
        parameter takes the dtype of its value, except that float64 and int64 arrays are taken as
        float32 and int32 (a float64 or int64 parameter keeps its dtype).

        Args:
            state_dict: values by name (None counts as missing), or a function that is called with
                each name and tensor and returns an array, or None to leave the tensor as it is.
            strict: whether names that are missing or unused are an error.

        Raises:
            KeyError: names are missing or unused and ``strict`` is True.
            ValueError: a value has another shape, or ``state_dict`` is neither dict nor function.
            TypeError: a value is not an array, or one of no dtype that tensors have.

        >>> import megengine.module as M
        >>> M.Linear(2, 3).load_state_dict({"weight": np.zeros((3, 3)), "b": np.zeros(3)})
        Traceback (most recent call last):
        ...
        KeyError: "Unused params violate `strict=True`, unused={'b'}; \
Missing params violate `strict=True`, missing={'bias'}; \
param `weight` shape mismatch, should be (3, 2), get (3, 3)"
        """
        values: Mapping[str, Any] = {}
        closure: Callable[[str, Tensor], Any]
        if isinstance(state_dict, Mapping):
            values = state_dict
            closure = lambda key, _: values.get(key)  # noqa: E731 - the same as what users pass
        elif callable(state_dict):
            closure = state_dict
        else:
            raise ValueError(f"`state_dict` must load a dict or callable, got {type(state_dict)}")
        found: list[tuple[Tensor, Tensor]] = []
        errors: list[Exception] = []
        used, missing = set(), set()
        for key, tensor, owner in self._owned_tensors():
            value = closure(key, tensor)
            if value is None:
                missing.add(key)
                continue
            used.add(key)
            try:
                found.append((tensor, _loadable(key, value, tensor, owner._flat_state)))
            except (TypeError, ValueError) as error:
                errors.append(error)
        unused = set(values) - used
        if strict and missing:
            text = f"Missing params violate `strict=True`, missing={_listed(missing)}"
            errors.insert(0, KeyError(text))
        if strict and unused:
            text = f"Unused params violate `strict=True`, unused={_listed(unused)}"
            errors.insert(0, KeyError(text))
        raise_all(errors)
        for tensor, new in found:
            tensor._reset(new)

    # ---- text ----------------------------------------------------------------------------------

    def _module_info_string(self) -> str:
        """What repr shows of the module itself, such as its sizes."""
        return ""

    def __repr__(self) -> str:
        info = self._module_info_string()
        lines = [info] if info else []
        children = 0
        for attribute in self._modules:
            for key, item in _expand(attribute, getattr(self, attribute)):
                if isinstance(item, Module):
                    children += 1
                    lines.append(f"({key}): " + repr(item).replace("\n", "\n  "))
        name = type(self).__name__
        if not children:
            return f"{name}({info})"
        return "\n  ".join([f"{name}(", *lines]) + "\n)"


def _is_tensor(item: Any) -> bool:
    return isinstance(item, Tensor)


def _is_parameter(item: Any) -> bool:
    return isinstance(item, Parameter)


def _is_buffer(item: Any) -> bool:
    return isinstance(item, Tensor) and not isinstance(item, Parameter)


def _is_module(item: Any) -> bool:
    return isinstance(item, Module)


def _without_names(named: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
    for _, *item in named:
        yield item[0] if len(item) == 1 else tuple(item)


def _listed(names: set[Any]) -> str:
    return "{" + ", ".join(repr(name) for name in sorted(names, key=str)) + "}"


def _loadable(key: str, value: Any, tensor: Tensor, flat: bool) -> Tensor:
    """What to load into ``tensor``, in its shape and on its device."""
    if not isinstance(value, (np.ndarray, Tensor)):
        raise TypeError(f"param `{key}` must be a numpy.ndarray, got {type(value).__name__}")
    wanted, got = tuple(tensor.shape), tuple(value.shape)
    fits = flat and (_squeezed(got) == _squeezed(wanted) or got == (tensor.size,))
    if got != wanted and not fits:
        raise ValueError(f"param `{key}` shape mismatch, should be {wanted}, get {got}")
    wide = value.dtype in _WIDE_DTYPES and value.dtype != tensor.dtype
    if isinstance(value, Tensor) and not wide and value.device == tensor.device:
        return value.detach().reshape(wanted)
    array = value.numpy() if isinstance(value, Tensor) else value
    try:
        dtype = None if wide else array.dtype
        return Tensor(array.reshape(wanted), dtype=dtype, device=tensor.device)
    except (TypeError, NotImplementedError) as error:
        raise TypeError(f"param `{key}` has no dtype of tensors: {error}") from error
