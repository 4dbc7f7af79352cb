"""The published experiments on Burgers."""

from ...family.preset import Network, Preset, Training


def preset(method: str, name: str) -> Preset:
    """The functions see (x, t) alone; the soft model is the same network with a branch of u₀."""
    hard = method == "hard"
    kind = "MLP" if hard else "DeepONet"
    statement: dict = {"seam": False, "data_weight": 20.0}
    loss_statement: dict = {}
    if name == "quick":
        network = Network(kind, 128, 128, 3, periodic=("x", 1))
        soft = Training(2500, 8, 4e-3, optimiser="muon")
        training = Training(400, 8, 1e-3) if hard else soft
    elif name == "paper":
        # From the authors' code. Their layer's rows are sums, ours are means: hence weights that are
        # shares of 600 points. Their loss has other weights, 300 for what the boundary leaves.
        size, options = (50, {}) if hard else (100, {"branch_depth": 5})
        network = Network(kind, size, 100, 4, options)
        statement = {"points": 600, "face_points": 101, "side": 101}
        statement |= {"data_weight": 20.0**2 * 101 / 600, "seam_weight": 101 / 600}
        loss_statement = {"points": 300, "data_weight": 300.0 * 20, "seam_weight": 300.0}
        if not hard:
            # A soft model sees all points, the two halves of 900, and the loss alone.
            statement, loss_statement = {**statement, **loss_statement, "points": 450}, {}
        plan: dict = {"decay": (0.9, 2000), "clip": None, "restarts": 0, "ridge": 1e-9}
        training = Training(100_000, 4, 1e-3, mean="mean", single=True, **plan)
    else:
        network = Network(kind, 400, 512, 4, periodic=("x", 3))
        statement |= {"points": 1200}
        # At width 64 Muon brought the soft model to a third of Adam's error.
        soft = Training(5000, 32, 2e-3, optimiser="muon")
        training = Training(3000, 32, 1e-3) if hard else soft
    return Preset(network, training, statement, loss_statement)
