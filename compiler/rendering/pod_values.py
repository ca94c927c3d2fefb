"""Values that the pods of several programs share: references, variables, tolerations, resources and node terms."""

from collections.abc import Iterable

from compiler.fleet import selectors
from compiler.model import base
from compiler.rendering import ir


def references(secrets: Iterable[base.LocalObjectReference]) -> tuple[ir.Reference, ...]:
    """Return references to objects of the namespace as they are rendered."""
    return tuple(ir.Reference(name=secret.name) for secret in secrets)


def environment(variables: Iterable[base.EnvVar]) -> tuple[ir.EnvVar, ...]:
    """Return environment variables as they are rendered."""
    return tuple(ir.EnvVar(name=variable.name, value=_literal(variable.value)) for variable in variables)


def _literal(value: str) -> str | None:
    """Return what the kubelet expands to a value, which else would take $(NAME) for a variable; None for none.

    It turns "$$" into "$" anywhere: `Expand` in Kubernetes' third_party/forked/golang/expansion/expand.go.
    """
    return value.replace("$", "$$") or None


def resources(requirements: base.ResourceRequirements) -> ir.Map | None:
    """Return requests and limits as they are rendered; None for neither."""
    parts = {
        name: ir.mapping((key, str(amount)) for key, amount in amounts.items())
        for name, amounts in (("limits", requirements.limits), ("requests", requirements.requests))
        if amounts
    }
    return ir.mapping(parts.items()) if parts else None


def terms(selector: base.NodeSelector | None) -> tuple[ir.Term, ...]:
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


def toleration(given: base.Toleration) -> ir.Toleration:
    """Return a toleration as it is rendered."""
    return ir.Toleration(
        key=given.key,
        operator=given.operator,
        value=given.value or None,
        effect=given.effect,
        tolerationSeconds=given.tolerationSeconds,
    )
