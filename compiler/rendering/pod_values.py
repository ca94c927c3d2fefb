"""Values that the pods of several programs share: variables, resources and node terms."""

from collections.abc import Iterable

from compiler.fleet import pods, selectors
from compiler.rendering import ir


def environment(variables: Iterable[pods.EnvVar]) -> tuple[ir.EnvVar, ...]:
    """Return environment variables as they are rendered."""
    return tuple(ir.EnvVar(name=variable.name, value=_literal(variable.value)) for variable in variables)


def _literal(value: str) -> str | None:
    """Return what the kubelet expands to a value, which else would take $(NAME) for a variable; None for none.

    It turns "$$" into "$" anywhere: `Expand` in Kubernetes' third_party/forked/golang/expansion/expand.go.
    """
    return value.replace("$", "$$") or None


def resources(requirements: pods.Resources) -> ir.Map | None:
    """Return requests and limits as they are rendered; None for neither."""
    parts = {
        name: ir.mapping((key, str(amount)) for key, amount in amounts.items())
        for name, amounts in (("limits", requirements.limits), ("requests", requirements.requests))
        if amounts
    }
    return ir.mapping(parts.items()) if parts else None


def terms(selector: selectors.Selector | None) -> tuple[ir.Term, ...]:
    """Return the node affinity of a selector; none for every node."""
    requirements = selectors.of(selector)
    return (term(requirements),) if requirements else ()


def term(requirements: selectors.Term) -> ir.Term:
    """Return a term of node affinity as it is rendered."""
    return ir.Term(
        matchExpressions=tuple(
            ir.Requirement(key=part.key, operator=part.operator, values=part.values or None) for part in requirements
        )
    )
