from __future__ import annotations

import pytest

from headrace.governance.api.errors import ApiError
from headrace.governance.api.paging import SIZE_MAX, SIZE_USUAL, after, page_of


def test_a_page_goes_on_behind_the_last_element_whatever_came_and_went():
    page = page_of(2, "", "ListPools", "filter")
    again = page_of(2, page.token("b"), "ListPools", "filter")
    assert (page.last, again.last) == ("", "b")
    assert after(["a", "aa", "c", "d"], again.last) == ["c", "d"]
    assert after(["a", "b"], "") == ["a", "b"]


def test_the_size_has_a_default_and_a_ceiling():
    assert page_of(0, "", "x").size == SIZE_USUAL
    for size in (-1, SIZE_MAX + 1):
        with pytest.raises(ApiError, match="page_size: write 1 to 1000"):
            page_of(size, "", "x")


@pytest.mark.parametrize("token", ["x", "!!!", "é", "W10", "eyJhIjoxfQ", "A" * 5_000])
def test_an_invalid_token_is_refused(token):
    with pytest.raises(ApiError, match="page_token: this is not a page token"):
        page_of(1, token, "x")


def test_a_token_of_another_list_is_refused():
    token = page_of(1, "", "ListPools", "a = b").token("onprem")
    with pytest.raises(ApiError, match="page_token: this token is of another list"):
        page_of(1, token, "ListPools", "a = c")
