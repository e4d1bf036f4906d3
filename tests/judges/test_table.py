import pandas as pd
import pyarrow as pa
import pytest

from ask.judges import Reply
from ask.judges.table import from_columns, to_columns, write_json, write_table

REPLIES = [
    Reply({"2": 0.25, "9": 0.5}, "9", "somewhere", 512, 1234),
    Reply({}, "sorry, I can not", "elsewhere"),
    Reply({"1": 0.0}, "1", "somewhere"),
]


def test_replies_survive_columns_and_a_file(tmp_path):
    assert from_columns(to_columns(REPLIES)) == REPLIES
    write_table(to_columns(REPLIES), tmp_path / "new" / "replies.parquet")
    assert from_columns(pd.read_parquet(tmp_path / "new" / "replies.parquet")) == REPLIES


def test_no_replies_make_an_empty_table():
    assert from_columns(to_columns([])) == []


def test_a_table_is_the_same_bytes_whatever_pandas_remembers_about_it(tmp_path):
    plain, remembering = to_columns(REPLIES), to_columns(REPLIES)
    remembering.attrs["asked"] = 3
    remembering.index = [5, 6, 7]
    for name, table in {"one": plain, "two": remembering}.items():
        write_table(table, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_what_cannot_be_written_leaves_the_old_file_and_nothing_else(tmp_path):
    write_json({"b": 1, "a": "ü"}, tmp_path / "one.json")
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json({"a": float("nan")}, tmp_path / "one.json")
    with pytest.raises(pa.ArrowInvalid):
        write_table(pd.DataFrame({"a": [object()]}), tmp_path / "two.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["one.json"]
    assert (tmp_path / "one.json").read_text(encoding="utf-8") == '{\n "a": "ü",\n "b": 1\n}\n'
