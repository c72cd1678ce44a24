"""The base class of optimizers."""

from __future__ import annotations

import copy
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..tensor import Parameter, Tensor
from ..utils.all_errors import raise_all

ParamGroup = dict[str, Any]
Params = Parameter | Iterable[Parameter] | ParamGroup | Iterable[ParamGroup]


class _RequiredParameter:
    def __repr__(self) -> str:
        return "<required parameter>"


required: Any = _RequiredParameter()
"""The default of an option that each parameter group must give."""


class Optimizer(metaclass=ABCMeta):
    """Changes parameters by their gradients, step by step.

    Subclasses give ``_create_state`` and ``_updates``. Parameters come in groups, each a dict with
    the parameters under "params" and the options, such as "lr", that hold for them.

    Args:
        params: a parameter, or several, or dicts that each describe a group.
        defaults: options for groups that do not say otherwise; :data:`required` where they must.

    Raises:
        ValueError: there are no parameters, or a group lacks a required option.
        TypeError: something is not a :class:`.Parameter`.
        AssertionError: a parameter is in two groups.
    """

    def __init__(self, params: Params, defaults: dict[str, Any]):
        self._state: dict[Parameter, dict[str, Tensor]] = {}
        self._defaults = defaults
        self._disable_type_convert = False
        self.param_groups: list[ParamGroup] = []
        groups: list[Any] = [params] if isinstance(params, (Parameter, Mapping)) else list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], Mapping):
            groups = [{"params": groups}]
        for group in groups:
            self._add_group(group)
        for group in self.param_groups:
            self._create_state(group)

    # ---- parameters and their state ------------------------------------------------------------

    def add_param_group(self, param_group: ParamGroup) -> None:
        """Adds a group of parameters.

        Args:
            param_group: the parameters under "params", and options; those that are not given are
                the defaults. The dict is kept and filled in.

        Raises:
            AssertionError: it is not a dict, or a parameter is in another group already.
            KeyError: it has no "params".
            TypeError: something is not a :class:`.Parameter`.
            ValueError: a required option is missing.
        """
        self._add_group(param_group)
        self._create_state(param_group)

    def _add_group(self, group: ParamGroup) -> None:
        assert isinstance(group, dict), "param group must be a dict"
        params = group["params"]
        # A parameter that is given twice in one group is stepped once.
        params = [params] if isinstance(params, Parameter) else list(dict.fromkeys(params))
        for param in params:
            if not isinstance(param, Parameter):
                raise TypeError(
                    "optimizer can only optimize Parameters, but one of the params is "
                    f"{type(param)}"
                )
        for name, default in self._defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization "
                    f"parameter {name}"
                )
        known = {id(p) for p in self._get_params()}
        assert known.isdisjoint(id(p) for p in params), (
            "some parameters appear in more than one parameter group"
        )
        group["params"] = params
        for name, default in self._defaults.items():
            group.setdefault(name, default)
        self.param_groups.append(group)

    def _get_params(self) -> list[Parameter]:
        """The parameters of all groups."""
        return [param for group in self.param_groups for param in group["params"]]

    def _add_state(self, param: Parameter, state_name: str, initializer: Any = None) -> None:
        """Gives a parameter a state tensor.

        Args:
            param: the parameter.
            state_name: the name of the state.
            initializer: its first value; None means zeros of the parameter's shape, in float32
                (float64 for a float64 parameter), whatever the parameter's dtype is.
        """
        if initializer is None:
            dtype = np.float64 if param.dtype == np.float64 else np.float32
            initializer = np.zeros(tuple(param.shape), dtype=dtype)
            state = Tensor(initializer, dtype=dtype, device=param.device)
        else:
            state = Tensor(initializer, device=param.device)
        self._state.setdefault(param, {})[state_name] = state

    @abstractmethod
    def _create_state(self, param_group: ParamGroup) -> None:
        """Gives the parameters of a group their first state, by :meth:`_add_state`."""

    @abstractmethod
    def _updates(self, param_group: ParamGroup) -> None:
        """Takes a step for the parameters of a group that have a gradient."""

    # ---- steps ---------------------------------------------------------------------------------

    def step(self) -> Optimizer:
        """Takes a step: changes all parameters that have a gradient. Gradients are left alone.

        Returns:
            the optimizer, so that ``optimizer.step().clear_grad()`` can be written.
        """
        for group in self.param_groups:
            self._updates(group)
        return self

    def clear_grad(self) -> None:
        """Sets all gradients to None."""
        for group in self.param_groups:
            for param in group["params"]:
                param.grad = None

    def zero_grad(self) -> None:
        """Sets all gradients that there are to zeros. Deprecated: use :meth:`clear_grad`."""
        for param in self._get_params():
            if param.grad is not None:
                param.grad.reset_zero()

    def backward(self, loss: Any) -> None:
        """Gone: gradients are the task of :class:`.GradManager`."""
        raise NotImplementedError("use autodiff.GradManager instead")

    def bcast_param(self) -> None:
        """Gone: broadcasting is the task of ``distributed``."""
        raise NotImplementedError("use distributed.bcast_list_ instead")

    # ---- state dicts ---------------------------------------------------------------------------

    def state_dict(self, keep_var: bool = False) -> dict[str, Any]:
        """Options and state, to be saved.

        Args:
            keep_var: give the state tensors themselves instead of read-only arrays.

        Returns:
            a dict of "param_groups", the groups with parameters numbered from 0 across groups, and
            "state", dicts of arrays by those numbers. Steps that follow do not change it.
        """
        state: dict[int, dict[str, Any]] = {}
        groups = []
        number = 0
        for group in self.param_groups:
            options = {k: copy.deepcopy(v) for k, v in group.items() if k != "params"}
            options["params"] = list(range(number, number + len(group["params"])))
            for param in group["params"]:
                if param in self._state:
                    state[number] = {
                        name: value if keep_var else value.numpy()
                        for name, value in self._state[param].items()
                    }
                number += 1
            groups.append(options)
        return {"param_groups": groups, "state": state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over options and state that :meth:`state_dict` gave.

        The groups must be those of this optimizer. A group may hold more options than this
        optimizer knows, such as the "initial_lr" that a scheduler leaves; an option of this kind
        that only this optimizer's group has is kept.

        Raises:
            ValueError: the number of groups, the number of parameters in one, the options of this
                optimizer or the shape of a state tensor differ.
            KeyError: something that it names is not there.
            TypeError: a state is no array.

        The error names all that does not fit, and nothing is changed then.
        """
        for key in ("param_groups", "state"):
            if key not in state:
                raise KeyError(key)
        saved_groups, states = state["param_groups"], state["state"]
        if len(saved_groups) != len(self.param_groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: expected "
                f"{len(self.param_groups)}, got {len(saved_groups)}"
            )
        errors: list[Exception] = []
        loaded: dict[Parameter, dict[str, Tensor]] = {}
        for i, (group, saved) in enumerate(zip(self.param_groups, saved_groups, strict=True)):
            errors += self._group_errors(i, group, saved)
            numbers = dict(zip(group["params"], saved["params"], strict=False))
            for param, number in numbers.items():
                # A parameter without state, as all are for plain SGD, is not listed.
                values = states.get(number, {})
                loaded[param] = self._loaded_state(param, number, values, errors)
            if any(
                self._state.get(p, {}).keys() != states.get(n, {}).keys()
                for p, n in numbers.items()
            ):
                options = {k: v for k, v in saved.items() if k != "params"}
                errors += self._state_errors({**group, **options}, numbers, states)
        raise_all(errors)
        for group, saved in zip(self.param_groups, saved_groups, strict=True):
            group.update((k, copy.deepcopy(v)) for k, v in saved.items() if k != "params")
        for param, values in loaded.items():
            self._state.pop(param, None)
            if values:
                self._state[param] = values

    def _group_errors(self, i: int, group: ParamGroup, saved: Mapping[str, Any]) -> list[Exception]:
        """Where a loaded group is not like this optimizer's."""
        errors: list[Exception] = []
        own, got = len(group["params"]), len(saved["params"])
        if own != got:
            errors.append(
                ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    f"optimizer's group: group {i} has {own} parameters, got {got}"
                )
            )
        absent = sorted(self._defaults.keys() - saved.keys())
        if absent:
            errors.append(
                ValueError(
                    "loaded state dict contains a parameter group that doesn't match the keys of "
                    f"optimizer's group: group {i} lacks {', '.join(absent)}"
                )
            )
        return errors

    def _state_errors(
        self,
        group: ParamGroup,
        numbers: Mapping[Parameter, int],
        states: Mapping[int, Mapping[str, Any]],
    ) -> list[Exception]:
        """What is missing in loaded state, or more than a group with these options has.

        Options decide about that: SGD has a buffer where there is momentum.
        """
        own, self._state = self._state, {}
        try:
            self._create_state(group)
            wanted = self._state
        finally:
            self._state = own
        errors: list[Exception] = []
        for param, number in numbers.items():
            names, got = wanted.get(param, {}).keys(), states.get(number, {}).keys()
            missing, unknown = ", ".join(sorted(names - got)), ", ".join(sorted(got - names))
            if missing:
                text = f"loaded state dict lacks the state {missing} of parameter {number}"
                errors.append(KeyError(text))
            if names and unknown:  # an optimizer may make its state when it needs it
                text = f"loaded state dict has unknown state {unknown} of parameter {number}"
                errors.append(ValueError(text))
        return errors

    def _loaded_state(
        self, param: Parameter, number: int, saved: Mapping[str, Any], errors: list[Exception]
    ) -> dict[str, Tensor]:
        own = self._state.get(param, {})
        loaded = {}
        for name, value in saved.items():
            label = f"loaded state '{name}' of parameter {number}"
            if name in own and tuple(np.shape(value)) != tuple(own[name].shape):
                errors.append(
                    ValueError(
                        f"{label} has shape {tuple(np.shape(value))}, expected "
                        f"{tuple(own[name].shape)}"
                    )
                )
            wide = param.dtype == np.float64 and getattr(value, "dtype", None) == np.float64
            try:
                dtype = np.float64 if wide else None
                loaded[name] = Tensor(value, dtype=dtype, device=param.device)
            except (TypeError, ValueError, NotImplementedError) as error:
                errors.append(TypeError(f"{label} has no dtype of tensors: {error}"))
        return loaded
