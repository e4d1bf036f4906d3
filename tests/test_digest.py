import pytest

from ask.digest import canonical, sha256


def test_the_order_of_keys_changes_nothing():
    assert canonical({"b": 1, "a": [1, {"d": 2, "c": 3}]}) == '{"a":[1,{"c":3,"d":2}],"b":1}'
    assert sha256({"a": 1, "b": 2}) == sha256({"b": 2, "a": 1}) != sha256({"a": 2, "b": 1})


def test_what_json_has_not_is_refused():
    with pytest.raises(ValueError, match="Out of range float"):
        canonical({"a": float("nan")})
