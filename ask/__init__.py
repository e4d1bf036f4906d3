"""ASK: turn a sentence into a notion of similarity.

A vision-language model judges pairs of pictures under a criterion, the judgments become positive
semidefinite target kernels, and LoRA adapters move CLIP's image geometry to them, while a bank of texts
keeps what CLIP recognizes.

The letters, used in every signature and docstring:

    n  images                 m  anchor texts
    b  images in a group      q  queries
    g  groups                 k  cut-off of a ranking
    d  embedding width        r  LoRA rank

This file re-exports nothing: import from the submodules, so that a pipeline stage can name the files that
it depends on.
"""
