"""Operators of torch as expressions of Python, and what they make and write; see `pijit._formats.code.nodes`."""

from collections.abc import Iterator, Mapping
from typing import Any

from pijit import _torch_objects
from pijit._formats.code.lines import Lines
from pijit._formats.code.values import Unsayable
from pijit.graph.model.tokens import token

_FORMS = {
    "tensor::size": "{0}.size({1})",
    "tensor::dim": "{0}.dim()",
    "tensor::numel": "{0}.numel()",
    "tensor::item": "{0}.item()",
    "tensor::int": "int({0})",
    "tensor::float": "float({0})",
    "tensor::bool": "bool({0})",
    "tensor::not": "not {0}",
    "tensor::data": "{0}.data",
    "tensor::grad": "{0}.grad",
    "tensor::set_grad": "{0}.grad = {1}",
    "tensor::set_requires_grad": "{0}.requires_grad = {1}",
    "tensor::set_grad_enabled": "torch._C._set_grad_enabled({0})",
    "tensor::getitem": "{0}[{1}]",
    "tensor::setitem": "{0}[{1}] = {2}",
}
_FACTS = {
    "dtype": "{0}.dtype",
    "device": "{0}.device",
    "keys": "torch._C._dispatch_keys({0}).raw_repr()",
    "dim": "{0}.dim()",
    "size": "{0}.size({1})",
    "numel": "{0}.numel()",
    "strides": "{0}.stride()",
    "offset": "{0}.storage_offset()",
    "is_contiguous": "{0}.is_contiguous(memory_format={1})",
    "requires_grad": "{0}.requires_grad",
    "is_leaf": "{0}.is_leaf",
    "grad": "{0}.grad",
    "has_no_node": "({0}.grad_fn is None)",
}
# Facts that do not follow from the form of what comes in.
_OF_STATE = {"grad"}
_OF_DATA = {"tensor::item", "tensor::int", "tensor::float", "tensor::bool", "tensor::not"}
# Operators without a kernel of their own that never give what they were given, nor a view of it.
_NEW = {"linear", "conv1d", "conv2d", "conv3d", "matmul", "layer_norm", "batch_norm", "instance_norm", "group_norm",
        "embedding", "cross_entropy_loss", "mse_loss", "scaled_dot_product_attention", "max_pool1d", "max_pool2d",
        "max_pool3d", "adaptive_avg_pool1d", "cat", "stack", "softmax", "log_softmax", "one_hot", "einsum",
        "binary_cross_entropy_with_logits", "rms_norm"}  # fmt: skip


class Operators(Lines):
    """Writes the nodes that torch runs."""

    def _call(self, row: Mapping[str, Any]) -> None:
        call = row["call"]
        if call["name"] == "tensor::check":
            self._check(call)
            return
        values = [value for _, value, _ in call["arguments"]]
        if call["name"] not in {"tensor::size", "tensor::numel", "tensor::dim"}:
            self._may_raise(row)
        self._add_all(self.values.prepared(*values))
        text = self._expression(call)
        if call["random"]:
            self._draws(values)
        reaches = [value for _, value, written in call["arguments"] if written and not self._is_own(value)]
        if call["name"] in {"tensor::set_grad", "tensor::set_requires_grad"} and not self._is_own(values[0]):
            self._undo(f"attribute({self.values.text(values[0])}, {call['name'].partition('set_')[2]!r})")
            reaches = []
        if call["name"] == "tensor::set_grad_enabled":
            self._undo("grad_mode()")
        self._results(call, values, text)
        if reaches:
            self.final = True

    def _draws(self, values: list[Any]) -> None:
        if self._on_cpu(values):
            if not any(line.text == "undo.random()" for line in self.tried):
                self._undo("random()")
        else:
            self.final = True

    def _on_cpu(self, values: list[Any]) -> bool:
        """The numbers come from the generator of the CPU."""
        devices = {row["device"] for row in self.guards.data["inputs"]}
        generators = any(value[0] == "const" and type(value[1]).__name__ == "Generator" for value in values)
        words = [token(value[1]) for value in values if value[0] == "const"]
        named = {str(word) for word in words if word is not None and word.kind == "device"}
        return devices | named <= {"cpu"} and not generators

    def _results(self, call: Mapping[str, Any], values: list[Any], text: str) -> None:
        registers = list(_flat(call["results"]))
        loose = call["name"] in _OF_DATA or not self.is_form(*values) or self._sized_by_data(call)
        own = self._makes_new(call) or not any(self._outer(value) for value in values)
        shared = [at for at in call["aliases"] if at >= 0]
        if shared:
            own = all(self._is_own(values[at]) for at in shared)
        targets = self._targets(call["results"])
        for register in registers:
            if own:
                self._own.add(register)
            if loose:
                self._loose.add(register)
        self._add(f"{targets} = {text}" if registers else text)

    def _outer(self, value: Any) -> bool:
        """There is a tensor in it that was not made here."""
        kinds = self.data["registers"]
        if any(kinds[each] in {"tensor", "object"} and each not in self._own for each in self._registers(value)):
            return True
        return any(map(_torch_objects.is_tensor, _constants(value)))

    def _targets(self, results: Any) -> str:
        words = []
        for one in results:
            if isinstance(one, list):
                words.append(f"[{', '.join(self._target(each) for each in one)}]")
            else:
                words.append(self._target(one))
        return ", ".join(words)

    def _target(self, register: int | None) -> str:
        return "_" if register is None else self.values.register(register)

    def _overload(self, call: Mapping[str, Any]) -> Any:
        import torch

        space, _, name = call["name"].partition("::")
        base, _, overload = name.partition(".")
        try:
            return getattr(getattr(getattr(torch.ops, space), base), overload or "default")
        except (AttributeError, RuntimeError):
            raise Unsayable(f"no operator {call['name']} of torch {torch.__version__}") from None

    def _is_operator(self, call: Mapping[str, Any]) -> bool:
        return call["callable"] is None and "::" in call["name"] and not call["name"].startswith("tensor::")

    def _makes_new(self, call: Mapping[str, Any]) -> bool:
        """It gives neither what it was given nor a view of it."""
        if not self._is_operator(call):
            return bool(call["name"] == "tensor::literal")
        overload = self._overload(call)
        if any(each.alias_info is not None for each in overload._schema.returns):
            return False
        if overload._schema.name.partition("::")[2] in _NEW:
            return True
        import torch

        name = overload.name()  # one without a kernel of its own may give anything
        return not bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"))

    def _sized_by_data(self, call: Mapping[str, Any]) -> bool:
        import torch

        if call["name"] == "tensor::getitem":
            return any(self.data["registers"][each] == "tensor" for each in self._registers(call["arguments"][1][1]))
        if not self._is_operator(call):
            return call["callable"] is not None and not call["name"].startswith("torch::")
        return bool(torch.Tag.dynamic_output_shape in self._overload(call).tags)

    def _expression(self, call: Mapping[str, Any]) -> str:
        name = call["name"]
        texts = [self._argument(each, value) for each, value, _ in call["arguments"]]
        if name == "tensor::literal":
            return f"{self.values.namespace.literal(call['arguments'][0][1][1], 'literal')}.clone()"
        if name == "aten::contiguous":
            return f"{texts[0]}.contiguous({', '.join(f'memory_format={text}' for text in texts[1:])})"
        if name in _FORMS:
            return _FORMS[name].format(*texts)
        if call["callable"] is not None:
            function = self.values.namespace.literal(call["callable"], name.replace("::", "_"))
            return self._calling(function, call["arguments"], texts, call["keywords"])
        overload = self._overload(call)
        function = self.values.namespace.name(overload, name.replace("::", "_"))
        schema = overload._schema.arguments
        return self._calling(function, *_without_defaults(schema, call["arguments"], texts))

    def _argument(self, name: str, value: Any) -> str:
        if name == "index" and value[0] == "slice":
            return self.values.text(value)
        return self.values.text(value)

    @staticmethod
    def _calling(function: str, arguments: Any, texts: list[str], keywords: Any) -> str:
        words = [
            f"{name}={text}" if name and name in keywords else text
            for (name, _, _), text in zip(arguments, texts, strict=True)
        ]
        return f"{function}({', '.join(words)})"

    def _check(self, call: Mapping[str, Any]) -> None:
        arguments = [value for _, value, _ in call["arguments"]]
        expected = self.values.text(arguments[-1])
        compare = "is" if arguments[-1][1] in {None, True, False} and type(arguments[-1][1]) is not int else "=="
        if call["callable"] is not None:
            function = self.values.namespace.name(call["callable"])
            self._decide(f"{function}() {compare} {expected}", form=True)
            return
        fact = arguments[1][1]
        shown = _FACTS.get(fact, f"{{0}}.{fact}").format(self.values.text(arguments[0]), self.values.text(arguments[2]))
        self._decide(f"{shown} {compare} {expected}", form=fact not in _OF_STATE and self.is_form(arguments[0]))


def _constants(value: Any) -> Iterator[Any]:
    """The objects that stand in a value."""
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "const":
        yield value[1]
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _constants(part)


def _flat(results: Any) -> Iterator[int]:
    for one in results:
        if isinstance(one, list):
            yield from _flat(one)
        elif one is not None:
            yield one


def _without_defaults(schema: Any, arguments: Any, texts: list[str]) -> tuple[Any, list[str], list[str]]:
    """The arguments that say something: those at the end that are as the schema has them are left out."""
    keep = list(range(len(arguments)))
    usual = [_is_usual(argument, value) for argument, (_, value, _) in zip(schema, arguments, strict=False)]
    keyword = [argument.kwarg_only for argument in schema]
    keep = [at for at in keep if not (at < len(usual) and keyword[at] and usual[at])]
    while keep and keep[-1] < len(usual) and usual[keep[-1]] and not keyword[keep[-1]]:
        keep.pop()
    names = [arguments[at][0] for at in keep if at < len(keyword) and keyword[at]]
    positional = [at for at in keep if not (at < len(keyword) and keyword[at])]
    while positional and positional[-1] < len(usual) and usual[positional[-1]]:
        keep.remove(positional.pop())
    return [arguments[at] for at in keep], [texts[at] for at in keep], names


def _is_usual(argument: Any, value: Any) -> bool:
    if not argument.has_default_value():
        return False
    default = argument.default_value
    if value[0] == "none":
        return default is None
    return value[0] == "const" and type(value[1]) is type(default) and isinstance(default, int | float | str | None) \
        and repr(value[1]) == repr(default)  # fmt: skip
