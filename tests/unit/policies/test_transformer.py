"""The transformer with windows, and the same fed step by step."""

import numpy as np
import pytest
import torch

from lifesafe.policies.cdt.attention import attend, window_mask
from lifesafe.policies.cdt.dropout import Dropout, Dropouts
from lifesafe.policies.cdt.streaming import Stream
from lifesafe.policies.cdt.transformer import Transformer


def make(slots: int, window: int | None, layers: int = 3) -> Transformer:
    torch.manual_seed(0)
    made = Transformer(width=16, heads=4, layers=layers, slots=slots, window=window)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made.requires_grad_(False)


def test_attention_agrees_with_pytorch() -> None:
    torch.manual_seed(0)
    parts = torch.randn(3, 3, 8, 2, 5)  # queries, keys and values of 3 sequences of 8 tokens, 2 heads
    mask = window_mask(4, 2, 2)
    ours = attend(*parts, mask)
    theirs = torch.nn.functional.scaled_dot_product_attention(*parts.transpose(2, 3), attn_mask=mask)
    torch.testing.assert_close(ours, theirs.transpose(1, 2).flatten(2))


def test_a_token_sees_the_last_steps_only_and_nothing_after_itself() -> None:
    seen = window_mask(steps=4, slots=2, window=2) == 0
    assert seen[5].nonzero().flatten().tolist() == [2, 3, 4, 5]  # the second token of step 2: steps 1 and 2
    assert seen[4].nonzero().flatten().tolist() == [2, 3, 4]
    assert (window_mask(steps=4, slots=2, window=None) == 0).sum() == 8 * 9 / 2


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_features_do_not_depend_on_what_lies_beyond_the_windows_of_all_layers(slots: int) -> None:
    transformer = make(slots, window=3, layers=2)
    tokens = torch.randn(2, 9, slots, 16)
    whole = transformer(tokens, slice(0, slots))
    changed = tokens.clone()
    changed[:, :4] = torch.randn(2, 4, slots, 16)  # the last step sees 2 layers x 2 steps back: from step 4 on
    torch.testing.assert_close(transformer(changed, slice(0, slots))[:, -1], whole[:, -1])
    assert not torch.allclose(transformer(changed, slice(0, slots))[:, -2], whole[:, -2])
    changed = tokens.clone()
    changed[:, 5:] = torch.randn(2, 4, slots, 16)
    torch.testing.assert_close(transformer(changed, slice(0, slots))[:, :5], whole[:, :5])


@pytest.mark.parametrize("slots", [2, 4])
def test_asking_for_fewer_tokens_gives_the_same_features(slots: int) -> None:
    transformer = make(slots, window=3)
    tokens = torch.randn(2, 6, slots, 16)
    torch.testing.assert_close(
        transformer(tokens, slice(slots - 2, slots - 1)), transformer(tokens, slice(0, slots))[:, :, [slots - 2]]
    )


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_streaming_equals_the_whole_sequence(slots: int) -> None:
    transformer = make(slots, window=4)
    steps, acting = 15, max(slots - 2, 0)
    tokens = torch.randn(3, steps, slots, 16)
    whole = transformer(tokens, slice(acting, acting + 1))[:, :, 0]
    stream = Stream(transformer, 3)
    for time in range(steps):
        features = stream.step(newest(tokens, time), np.full(3, time))
        torch.testing.assert_close(features, whole[:, time], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("slots", [1, 2])
def test_rows_at_different_times_do_not_disturb_each_other(slots: int) -> None:
    transformer = make(slots, window=3)
    tokens = torch.randn(4, 12, slots, 16)
    whole = transformer(tokens, slice(0, 1))[:, :, 0]
    stream, times = Stream(transformer, 4), np.zeros(4, dtype=np.int64)
    random = np.random.default_rng(0)
    for turn in range(40):
        rows = None if turn % 7 == 3 else np.flatnonzero(random.random(4) < 0.6)
        chosen = np.arange(4) if rows is None else rows
        if not len(chosen):
            continue
        times[chosen[times[chosen] == 12]] = 0  # the episode is over; a new one begins
        new = torch.cat([newest(tokens[[row]], times[row]) for row in chosen])
        features = stream.step(new, times[chosen], rows)
        torch.testing.assert_close(features, whole[chosen, times[chosen]], rtol=1e-4, atol=1e-5)
        times[chosen] += 1


def test_streaming_without_windows_is_refused() -> None:
    with pytest.raises(ValueError, match="windows"):
        Stream(make(1, window=None), 2)


def test_dropout_keeps_the_mean_and_drops_the_given_share() -> None:
    dropout = Dropout(0.1, np.random.default_rng(0))
    dropped = dropout(torch.ones(400_001))
    assert abs((dropped == 0).float().mean().item() - 0.1) < 0.002
    assert abs(dropped.mean().item() - 1) < 0.002
    assert len(dropped.unique()) == 2
    added = Dropout(0.1, np.random.default_rng(0)).add(torch.ones(400_001), torch.ones(400_001))
    torch.testing.assert_close(added, dropped + 1)


def test_neighbouring_entries_are_dropped_independently() -> None:
    dropped = Dropout(0.5, np.random.default_rng(0))(torch.ones(200_000)).view(-1, 4) == 0
    together = (dropped.float().T @ dropped.float()) / len(dropped)
    torch.testing.assert_close(together, torch.full((4, 4), 0.25) + 0.25 * torch.eye(4), rtol=0, atol=0.01)


def test_no_dropout_changes_nothing_and_draws_nothing() -> None:
    random = np.random.default_rng(0)
    before = random.bit_generator.state
    nothing = Dropout(0.0, random)
    transformer, tokens = make(2, 3), torch.randn(2, 5, 2, 16)
    dropped = transformer(tokens, slice(0, 1), Dropouts(nothing, nothing))
    torch.testing.assert_close(dropped, transformer(tokens, slice(0, 1)))
    assert random.bit_generator.state == before


def newest(tokens: torch.Tensor, time: int) -> torch.Tensor:
    """The tokens that are new at a time: the last one of the step before, then all but the last of this one."""
    slots = tokens.shape[2]
    if slots == 1:
        return tokens[:, time]
    late = tokens[:, time - 1, -1:] if time else torch.zeros_like(tokens[:, 0, -1:])
    return torch.cat([late, tokens[:, time, :-1]], dim=1)
