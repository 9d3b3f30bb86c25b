"""Under pytest the functions of credo check the shapes that their signatures promise.

jaxtyping's own import hook would check every annotation of every function. Here only functions
with shapes in their signature are checked, and only these annotations of them: where a user gives
something of another type, credo answers with an error of its own, which the tests of bad input must
see; and a function within a function would be wrapped anew whenever it is made.
"""

import ast
import functools
import sys
import types
import typing
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from typing import Any

import jax
import numpy as np
from beartype import beartype
from jaxtyping import TypeCheckError, jaxtyped

KINDS = ("Float", "Int", "UInt", "Bool", "Num", "Shaped", "Inexact", "Real", "Complex", "Key")
DECORATOR = "__check_shapes__"


def has_shape(hint: Any) -> bool:
    """Whether an annotation is of an array with a shape, or of some of these."""
    if hasattr(hint, "dim_str"):
        return True
    options = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(map(has_shape, options))
    return typing.get_origin(hint) is tuple and all(map(has_shape, options))


def of_any_library(hint: Any) -> Any:
    """The annotation for arrays of JAX and of NumPy alike: functions take both."""
    if hasattr(hint, "dim_str"):
        return hint.dtype[jax.Array | np.ndarray, hint.dim_str]
    options = tuple(map(of_any_library, typing.get_args(hint)))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.Union[options]  # noqa: UP007
    return tuple[options] if typing.get_origin(hint) is tuple else hint


def checked(function: Callable) -> Callable:
    """The function, which raises when an array that it takes or gives has not the shape it says."""
    hints = function.__annotations__
    shaped = {name: of_any_library(hint) for name, hint in hints.items() if has_shape(hint)}
    function.__annotations__ = shaped
    strict = jaxtyped(function, typechecker=beartype)
    function.__annotations__ = hints

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return strict(*given, **named)
        except TypeCheckError as error:
            # Where credo refuses it by itself, that is the answer.
            raise _own_refusal(function, given, named) or error from None

    return call


def _own_refusal(function: Callable, given: tuple, named: dict) -> Exception | None:
    from credo.errors import CredoError  # which must not be imported before it is hooked

    try:
        function(*given, **named)
    except CredoError as error:
        return error
    except Exception:
        return None
    return None


class _Marker(ast.NodeTransformer):
    """Decorates functions of a module and methods of its classes that have shapes."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        hints = [each.annotation for each in arguments] + [node.returns]
        if any(_names_shape(hint) for hint in hints if hint is not None):
            node.decorator_list.append(ast.Name(DECORATOR, ast.Load()))
        return node  # and not into it: see the top of this module


def _names_shape(hint: ast.expr) -> bool:
    parts = [part for part in ast.walk(hint) if isinstance(part, ast.Subscript)]
    return any(isinstance(part.value, ast.Name) and part.value.id in KINDS for part in parts)


class _Loader(SourceFileLoader):
    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:
        tree = ast.fix_missing_locations(_Marker().visit(ast.parse(data)))
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)

    def get_code(self, fullname: str) -> Any:  # not from, and not into, the cache of bytecode
        return self.source_to_code(self.get_data(self.path), self.path)

    def exec_module(self, module: types.ModuleType) -> None:
        setattr(module, DECORATOR, checked)
        super().exec_module(module)


class _Finder(MetaPathFinder):
    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] != self.package:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def check_shapes_of(package: str) -> None:
    """Check the shapes of a package that is not imported yet."""
    assert package not in sys.modules
    sys.meta_path.insert(0, _Finder(package))
