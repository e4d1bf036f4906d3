import json

from ask.nbcode import code, main


def cell(kind, source, **metadata):
    return {"cell_type": kind, "source": source, "metadata": metadata}


def notebook(path, *cells):
    path.write_text(json.dumps({"cells": cells}))
    return path


def test_code_cells_come_in_order_below_their_tags(tmp_path):
    cells = [
        cell("code", ["a = 1\n", "b = 2"], tags=["parameters"]),
        cell("markdown", "prose"),
        cell("code", "print(a)"),
    ]
    assert (
        code(notebook(tmp_path / "x.ipynb", *cells))
        == "# tags: parameters\na = 1\nb = 2\n\n# tags: \nprint(a)\n"
    )


def test_prose_and_outputs_change_nothing_but_code_and_tags_do(tmp_path):
    plain = code(notebook(tmp_path / "x.ipynb", cell("markdown", "prose"), cell("code", "a = 1")))
    saved = cell("code", "a = 1") | {"outputs": [{"text": "1"}], "execution_count": 3}
    assert code(notebook(tmp_path / "x.ipynb", cell("markdown", "other prose"), saved)) == plain
    assert code(notebook(tmp_path / "x.ipynb", cell("code", "a = 2"))) != plain
    assert code(notebook(tmp_path / "x.ipynb", cell("code", "a = 1", tags=["parameters"]))) != plain


def test_each_notebook_becomes_one_file(tmp_path):
    sources = [notebook(tmp_path / f"{name}.ipynb", cell("code", name)) for name in ("01_a", "02_b")]
    main([*map(str, sources), str(tmp_path / "deep" / "code")])
    written = {path.name: path.read_bytes() for path in (tmp_path / "deep" / "code").iterdir()}
    assert written == {"01_a.py": b"# tags: \n01_a\n", "02_b.py": b"# tags: \n02_b\n"}
