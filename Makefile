# `make help` lists what there is. Everything runs in .venv, which is made from requirements.lock on first use.

PYTHON := $(shell for p in $(PYTHON) python3 python3.11 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
READY := .venv/.installed
NAME := own
FAST := -m "not slow and not gpu"
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYTHONPATH :=

.DEFAULT_GOAL := help
.PHONY: help reproduce results test own paper claims bench gpu student lab release prerequisites

help: ## list what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

reproduce: $(READY) ## compute the default pipeline: pictures, judgments, students, six executed notebooks
	dvc pull data.dvc
	dvc repro
	@echo; cat results/ablations/claims.md
	@echo; echo "The executed notebooks are in reports/, this table is results/ablations/claims.md."

results: $(READY) ## fetch the published results to look at, without computing
	dvc pull
	@echo "The executed notebooks are in reports/, the claims in results/ablations/claims.md."

test: $(READY) ## run the fast tests
	dvc pull data.dvc
	python -m pytest $(FAST)

# In `own`, every call is a notebook with parameters and can be copied from the screen. LABELS may be a table
# path,label,split, COLUMNS say how its columns are named: COLUMNS='{"path": "file", "label": "species"}'.
OWN = --workspace "runs/$(NAME)"
WITH = -p pictures '"$(PICTURES)"' -p manifest $(if $(LABELS),'"$(LABELS)"',null) $(if $(COLUMNS),-p columns '$(COLUMNS)') \
	-p task own -p judge pixel
own: $(READY) ## judge, train and search in your pictures: make own PICTURES=folder [NAME=x] [LABELS=table.csv]
	@test -n "$(PICTURES)" || { echo "PICTURES is missing; say make own PICTURES=folder" >&2; exit 1; }
	@test -e "$(PICTURES)" || { echo "there is no folder or zip $(PICTURES); check the path" >&2; exit 1; }
	dvc pull data.dvc
	dvc repro world
	python -m ask.run $(OWN) notebooks/01_elicitation.ipynb reports/elicitation.ipynb $(WITH) -p panel '[]'
	python -m ask.run $(OWN) notebooks/02_psd.ipynb reports/psd.ipynb $(WITH) -p targets own \
		-p verdict expected -p supervision judgments
	python -m ask.run $(OWN) notebooks/03_training.ipynb reports/training.ipynb $(WITH) -p targets own
	python -m ask.run $(OWN) notebooks/04_geometry.ipynb reports/geometry.ipynb $(WITH) -p arms '[]'
	python -m ask.run $(OWN) notebooks/06_retrieval.ipynb reports/retrieval.ipynb $(WITH) -p arms '[]'
	@echo "The executed notebooks are in runs/$(NAME)/reports/."

# Every name of a task and judge is in profiles/paper/params.yaml and params.yaml; ASK_DATA is the folder of the datasets.
PAPER = --params profiles/paper/params.yaml --workspace "profiles/paper/runs/$(TASK)-$(BACKBONE)-$(JUDGE)"
ASKED = -p task $(TASK) -p judge $(JUDGE)
BACKBONE := vit-b-16
JUDGE := qwen35-397b
BUDGET := 0.0
paper: $(READY) ## the paper's scale: make paper TASK=dogs-breed BUDGET=dollars [BACKBONE=vit-b-16] [JUDGE=qwen35-397b]
	@test -n "$(TASK)" || { echo "TASK is missing; say make paper TASK=dogs-breed" >&2; exit 1; }
	@test -d "$(ASK_DATA)" || { echo "ASK_DATA must name the folder of the datasets; export it" >&2; exit 1; }
	python -m ask.datasets.paper "$(ASK_DATA)" --out profiles/paper/worlds \
		$(foreach domain,pets textures flowers,--manifest $(domain)=profiles/paper/manifests/$(domain).csv)
	ASK_PARAMS=profiles/paper/params.yaml python -m ask.baseline $(BACKBONE) $(TASK)
	python -m ask.run $(PAPER) notebooks/01_elicitation.ipynb reports/elicitation.ipynb $(ASKED) -p budget $(BUDGET)
	python -m ask.run $(PAPER) notebooks/02_psd.ipynb reports/psd.ipynb $(ASKED) -p targets $(TASK) \
		-p verdict expected -p supervision judgments
	python -m ask.run $(PAPER) notebooks/03_training.ipynb reports/training.ipynb $(ASKED) -p targets $(TASK) \
		-p backbone $(BACKBONE)
	python -m ask.run $(PAPER) notebooks/04_geometry.ipynb reports/geometry.ipynb $(ASKED) -p arms '[]'
	python -m ask.run $(PAPER) notebooks/06_retrieval.ipynb reports/retrieval.ipynb $(ASKED) -p arms '[]'
	@echo "The executed notebooks are in profiles/paper/runs/."

bench: $(READY) ## how much faster than plain ways, and how time grows
	dvc pull data.dvc
	python -m benchmarks

gpu: $(READY) ## the GPU tests, then the paper's 3,000 steps on one GPU
	python -m pytest -m gpu
	python -m benchmarks.gpu

claims: $(READY) ## measure every claim over three seeds and put the table into README.md
	dvc pull data.dvc
	dvc repro code world
	cd profiles/claims && dvc repro
	python -m ask.readme profiles/claims/results/ablations/claims.md

student: $(READY) ## pre-train the miniature student again (half an hour)
	python -m ask.pretrain
	dvc add data

lab: $(READY) ## open the notebooks in JupyterLab
	python -m jupyterlab notebooks

release: $(READY) ## publish answers and results in the remote that travels with the repository; commit with the line that is printed
	python -m ask.publish
	dvc add data
	dvc status
	rm -rf .dvc/bundled
	dvc push -r bundled
	@du -sh .dvc/bundled
	@echo 'git add -f .dvc/bundled && git add data.dvc dvc.lock results && git commit'

$(READY): requirements.lock pyproject.toml | prerequisites
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $(READY)

prerequisites:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is missing; on Debian or Ubuntu: sudo apt install python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "Python's venv module is missing; on Debian or Ubuntu: sudo apt install python3-venv" >&2; exit 1; }
	@command -v git >/dev/null || { echo "git is missing; on Debian or Ubuntu: sudo apt install git" >&2; exit 1; }
	@git rev-parse --git-dir >/dev/null 2>&1 || { \
		echo "this folder is no Git clone, which DVC needs; use git clone rather than a ZIP download" >&2; exit 1; }
	@test -e $(READY) || test "$$(df -Pk . | awk 'NR == 2 {print int($$4 / 1048576)}')" -ge 10 || { \
		echo "less than 10 GB are free here, which the environment needs; make room first" >&2; exit 1; }
