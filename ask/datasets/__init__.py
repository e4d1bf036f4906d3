"""Datasets: one manifest, ``path,label,split``, and one way to open the pictures it names.

In reading order: ``pictures`` (a folder or a pack, every picture as plain RGB), ``manifest`` (tables and
folder trees become manifests), then the generated world: ``factors``, ``render``, ``world``.
"""
