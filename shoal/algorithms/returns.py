"""What rewards add up to. Pure functions of tensors `[R, B]` in the layout of a Fragment."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


def reverse_scan(term: Tensor, factor: Tensor) -> Tensor:
    """x[t] = term[t] + factor[t] * x[t+1], with x[R] = 0, for all t at once.

    By doubling: after k rounds x[t] covers 2^k rows, so 7 rounds of whole-array operations replace 128 of single rows.
    """
    total, factor = term.clone(), factor.clone()
    span = 1
    while span < len(total):
        total[:-span] += (
            factor[:-span] * total[span:]
        )  # the product is a new tensor: nothing is read after being written
        factor[:-span] = factor[:-span] * factor[span:]
        factor[-span:] = 0.0
        span *= 2
    return total


def gae(
    reward: Tensor, value: Tensor, terminated: Tensor, truncated: Tensor, valid: Tensor, *, gamma: float, lam: float
) -> Tensor:
    """Generalised advantage estimation (Schulman et al. 2016, eq. 16) -> advantages `[R, B]`, zero where not valid.

    The value of row t+1 is what follows decision t: after a truncation that row holds the final observation, so the future is
    valued and the sum ends there; after a termination there is no future.
    """
    delta = reward + gamma * _following(value) * ~terminated - value
    goes_on = (~(terminated | truncated) & valid).to(reward.dtype)
    return reverse_scan(delta * valid, gamma * lam * goes_on)


def n_step(
    reward: Tensor, value: Tensor, terminated: Tensor, truncated: Tensor, *, gamma: float | Tensor, steps: int
) -> Tensor:
    """`steps` rewards and then the value of where they led (Sutton 1988) -> `[R, B]`.

    Fewer rewards where the episode ends before: after a truncation the final observation's value follows, after a termination
    nothing. A row counts only if `steps` rows follow it in its fragment, which is what `Needs.bootstrap` is for. `gamma` may
    differ between rows as long as it is the same throughout an episode.
    """
    goes_on = ~(terminated | truncated)
    following = torch.where(terminated, 0.0, _following(value))  # whatever is there, even NaN: it is not looked at
    total = reward + gamma * following
    for _ in range(steps - 1):
        total = reward + gamma * torch.where(goes_on, _following(total), following)
    return total


class VTrace(NamedTuple):
    """What V-trace makes of a batch. All `[R, B]`."""

    target: Tensor
    """v_s, what the value function should say; where not valid, the value itself."""
    rho: Tensor
    """min(rho_bar, probability ratio); zero where not valid."""
    gain: Tensor
    """r_s + gamma v_{s+1} - V(x_s): the advantage before it is weighted; zero where not valid."""

    @property
    def advantage(self) -> Tensor:
        """rho_s (r_s + gamma v_{s+1} - V(x_s)): what the policy's gradient is weighted with."""
        return self.rho * self.gain


def vtrace(
    reward: Tensor, value: Tensor, log_ratio: Tensor, terminated: Tensor, truncated: Tensor, valid: Tensor, *,
    gamma: float, lam: float = 1.0, rho_bar: float = 1.0, c_bar: float = 1.0,
) -> VTrace:  # fmt: skip
    """V-trace (Espeholt et al. 2018, eq. 1): what the policy would have earned, told from what another one did.

    log_ratio: log-probability of the action by the policy that learns, minus that by the policy that acted. Ends count as in
    `gae`: after a truncation the trace is cut and the final observation's value follows, after a termination nothing does.
    """
    ratio = torch.where(valid, log_ratio, 0.0).exp()
    rho = ratio.clamp(max=rho_bar) * valid
    following = _following(value) * ~terminated
    goes_on = (~(terminated | truncated) & valid).to(reward.dtype)
    delta = rho * (reward + gamma * following - value)
    excess = reverse_scan(delta, gamma * lam * ratio.clamp(max=c_bar) * goes_on)
    gain = (reward + gamma * (following + goes_on * _following(excess)) - value) * valid
    return VTrace(value + excess, rho, gain)


def _following(x: Tensor) -> Tensor:
    """Row t+1 in the place of row t, zero behind the last."""
    return torch.cat([x[1:], torch.zeros_like(x[:1])])


def discounted_sums(
    reward: Tensor, first: Tensor, valid: Tensor, carried: Tensor, *, gamma: float
) -> tuple[Tensor, Tensor]:
    """Running discounted sum of rewards per lane, s[t] = reward[t] + gamma * s[t-1], restarted where `first`.

    reward, first, valid `[R, B]`, carried `[B]`: the sum before row 0 -> sums `[R, B]`, the last sum of each lane `[B]`.
    Rows that are not valid pass the sum on unchanged.
    """
    keep = torch.where(valid, gamma * (~first).to(reward.dtype), 1.0)
    term = torch.where(valid, reward, 0.0)
    term[0] += keep[0] * carried
    sums = reverse_scan(term.flip(0), keep.flip(0)).flip(0)
    return sums, sums[-1]
