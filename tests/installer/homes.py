"""The homes of recipes on a host, as the compiler writes them, and the paths of their installers."""

from installer import paths
from runtime import shapes


def home(recipe: str) -> shapes.Home:
    """Return the home of a recipe: that of KAE is where every release has had it."""
    if recipe == "kae":
        return shapes.Home(state="/var/lib/kae", run="/run/kae", prefix="kae", tree=".kae-", files="/opt/kae")
    return shapes.Home(
        state=f"/var/lib/kae/recipes/{recipe}",
        run=f"/run/kae/recipes/{recipe}",
        prefix=f"kae-{recipe}",
        tree=f".kae.{recipe}~",
        options=f"kae-{recipe}-",
    )


def own(recipe: str) -> paths.Own:
    """Return the paths of a recipe's installer."""
    return paths.Own(home(recipe))


KAE = own("kae")
