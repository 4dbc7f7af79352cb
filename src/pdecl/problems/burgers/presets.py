"""The published experiments on Burgers."""

from ...family.preset import Network, Preset, Training


def preset(method: str, name: str) -> Preset:
    """The functions see (x, t) alone; the soft model is the same network with a branch of u₀."""
    hard = method == "hard"
    kind = "MLP" if hard else "DeepONet"
    statement: dict = {"seam": False, "data_weight": 20.0}
    judge: dict = {}
    if name == "quick":
        network = Network(kind, 128, 128, 3, periodic=("x", 1))
        soft = Training(2500, 8, 4e-3, optimiser="muon")
        training = Training(400, 8, 1e-3) if hard else soft
    elif name == "paper":
        # With rows for periodicity in the place of periodic features: 7.4% after 1000 steps.
        network = Network(kind, 50, 50, 4, periodic=("x", 1))
        statement |= {"points": 600, "face_points": 100}
        judge |= {"points": 300}
        # Theirs is 1e-4 beside sums over 900 points; ours is beside means.
        # The soft model came to 10.7%; with Muon at 4e-3, which suits "best", only to 27%.
        training = Training(8000 if hard else 20000, 3, 1e-3, mean="mean", ridge=1e-4 / 900)
    else:
        network = Network(kind, 400, 512, 4, periodic=("x", 3))
        statement |= {"points": 1200}
        # At width 64 Muon brought the soft model to a third of Adam's error.
        soft = Training(5000, 32, 2e-3, optimiser="muon")
        training = Training(3000, 32, 1e-3) if hard else soft
    return Preset(network, training, statement, judge)
