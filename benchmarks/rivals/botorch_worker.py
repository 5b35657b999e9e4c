"""BoTorch: the posterior of both returns at every candidate. That is a part of a decision, not a decision.

Two `SingleTaskGP` with fixed hyperparameters (one model with two outputs took several times as long), built
anew in each measurement, as for a new observation. One call for all candidates builds their joint covariance,
so they go in as batches of single points; batches of 2 000 were about the fastest of 500 to 20 000.
"""

import warnings
from importlib.metadata import version

import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.means import ZeroMean
from protocol import grid, probes, serve, timed

warnings.simplefilter("ignore")
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)

BATCH = 2_000
LARGEST_JOINT = 10_000  # the joint covariance of so many candidates takes 0.8 GB


class BoTorchContestant:
    """The candidates and observations, from which every measurement starts."""

    def versions(self):
        return {name: version(name) for name in ("botorch", "gpytorch", "torch", "numpy")}

    def prepare(self, axes, lengthscales, sd, mean, noise_sd, limit, indices, rewards, costs, cap):
        self.lengthscales, self.sd, self.noise_sd = torch.tensor(lengthscales), sd, noise_sd
        self.candidates = torch.from_numpy(grid(axes))
        self.x = self.candidates[indices]
        self.y = [torch.tensor(rewards) - mean[0], limit - torch.tensor(costs)]
        few = self.candidates[probes(len(self.candidates))]
        _, (slack, variance) = self.predict([few.unsqueeze(1)])
        return {
            "measures": ["batches"] + ["one call"] * (len(self.candidates) <= LARGEST_JOINT),
            "facts": {},
            "posterior": {"slack": slack.flatten().tolist(), "variance": variance.flatten().tolist()},
        }

    def measure(self, what):
        if what == "one call":
            batches, row = [self.candidates], "posterior, all at once"
        else:
            batches, row = self.candidates.unsqueeze(1).split(BATCH), f"posterior, {BATCH:,} at once"
        _, elapsed = timed(lambda: self.predict(batches))
        return {"rows": {row: elapsed}}

    @torch.no_grad()
    def predict(self, batches):
        """Return mean and variance, batch by batch, first of the reward and then of the slack."""
        moments = []
        for k in range(2):
            model = self.model(k)
            for batch in batches:
                posterior = model.posterior(batch)
                moments.append((posterior.mean, posterior.variance))
        return moments

    def model(self, k):
        kernel = ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=2))
        kernel.base_kernel.lengthscale = self.lengthscales
        kernel.outputscale = self.sd[k] ** 2
        y = self.y[k].unsqueeze(-1)
        noise = torch.full_like(y, self.noise_sd[k] ** 2)
        model = SingleTaskGP(self.x, y, noise, covar_module=kernel, mean_module=ZeroMean(), outcome_transform=None)
        return model.eval()


if __name__ == "__main__":
    serve(BoTorchContestant())
