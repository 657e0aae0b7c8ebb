#!/usr/bin/env bash
# Runs the commands of the CI recipes in a project of its own, with attest from an installation:
# once where a change is right, once where it breaks the kernel.
# usage: recipes_test.sh BUILD_DIR CMAKE
# Exit code 77 (skipped): the program has not been built, or Python cannot read YAML.
set -euo pipefail
build=$1 cmake=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=/usr/bin/python3  # the one that the packages are for
skip() { echo "NOT TESTED: $*"; exit 77; }
die() { echo "$*"; exit 1; }
[[ -x $build/bin/attest ]] || skip "bin/attest has not been built"
"$python" -c 'import yaml' 2>/dev/null || skip "no YAML for Python (package python3-yaml)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# One kernel is compiled for many jobs: a compiler cache spares all but the first.
if cache=$(command -v ccache); then export CXX="$cache ${CXX:-g++}" CCACHE_BASEDIR=$work; fi

# An archive as `cpack -G TGZ` makes it, but with only what these jobs need: each unpacks it.
"$cmake" --install "$build" --strip --prefix "$work/attest-archive" >/dev/null
find attest-archive \( -path '*/plugins/*' ! -name naive.so -o -name '*conformance*.so*' \) -delete
tar -cf attest.tar attest-archive
gzip -1 attest.tar

# The runs judge two implementations by one small case instead of the default suite, and --strict
# would miss the other features. They take no times, which would measure the machine first.
cat >small.json <<'JSON'
{"name": "small", "summary": "one small case",
 "cases": [{"name": "dense", "operation": "softmax", "dtypes": ["f32"],
  "seq_len_q": 61, "head_dim": 16}]}
JSON
cat >attest-small <<SH
#!/usr/bin/env bash
case \$1 in
  run) shift; exec attest run $work/small.json --impl mine,naive --judge-only \
    "\${@/--strict/--relations=auto}" ;;
  ab) shift; exec attest ab $work/small.json --budget 5ms --rounds 1 "\$@" ;;
  *) exec attest "\$@" ;;
esac
SH
chmod +x attest-small

# A project whose main branch has a right kernel, with one branch that changes nothing that shows
# and one that breaks it.
git init -q -b main project
cd project
git config user.name nobody && git config user.email nobody@localhost
"$work/attest-archive/bin/attest" new mine >/dev/null
cat >Makefile <<MAKE
mine.so: mine.o
	\$(CXX) -shared \$< -o \$@
mine.o: mine.cpp
	\$(CXX) -std=c++17 -O2 -fPIC -I$work/attest-archive/include -c \$< -o \$@
MAKE
git add . && git commit -qm main
git checkout -q -b harmless && echo "// harmless" >>mine.cpp && git commit -qam harmless
git checkout -q -b broken main
sed -i 's/sum\[d\] = keep \* sum\[d\]/sum[d] = sum[d]/' mine.cpp  # the rescale is forgotten
git diff --quiet && die "the template was not broken"
git commit -qam broken
cd ..

cat >commands.py <<'PYTHON'
"""Writes the commands of a recipe's jobs as scripts: JOB.sh for each."""
import re, sys, yaml
recipe, out = sys.argv[1:]
text = open(recipe).read()
jobs = {}
if recipe.endswith("github.yml"):
    expression = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")
    values = {"vars.ATTEST_ARCHIVE": "$ARCHIVE"}
    for name, job in yaml.safe_load(text)["jobs"].items():
        lines = ['export GITHUB_ENV=$PWD/.env GITHUB_PATH=$PWD/.path GITHUB_OUTPUT=$PWD/.output',
                 ': >.env; : >.path; : >.output']
        for step in job["steps"]:
            if "run" not in step or "main" in step.get("if", ""):
                continue
            for key, value in step.get("env", {}).items():
                value = expression.sub(lambda found: values[found[1]], value)
                lines.append(f'export {key}="{value}"')
            lines.append(step["run"])
            lines.append('while read -r line; do export "$line"; done <.env')
            lines.append('while read -r line; do export PATH="$line:$PATH"; done <.path; : >.path')
        jobs[name] = lines
elif recipe.endswith("gitlab.yml"):
    recipe = yaml.safe_load(text)
    before = [line for line in recipe.pop(".attest")["before_script"] if "apt-get" not in line]
    for name, job in recipe.items():
        assert job["extends"] == ".attest", name
        jobs[name.removeprefix("attest-")] = before + job["script"]
else:
    stages = re.findall(r"stage\('(\w+)'\)(.*?)(?=stage\('|post \{)", text, re.S)
    commands = {name: [b or a for a, b in re.findall(r"sh '([^'\n]+)'|sh '''(.*?)'''", body, re.S)]
                for name, body in stages}
    get = commands.pop("attest")
    jobs = {name: get + lines for name, lines in commands.items()}
assert set(jobs) == {"judge", "compare"}, jobs
for name, lines in jobs.items():
    with open(f"{out}/{name}.sh", "w") as file:
        file.write("set -euo pipefail\n" + "\n".join(lines) + "\n")
PYTHON

run_job() {  # run_job RECIPE JOB BRANCH: the exit code in $status, what it said in `said`
  local clone=$work/clone
  rm -rf "$clone"
  git clone -q "$work/project" "$clone"
  git -C "$clone" checkout -q "$3"
  status=0
  (cd "$clone" && env ARCHIVE="$work/attest.tar.gz" ATTEST_ARCHIVE="$work/attest.tar.gz" \
    RUNNER_TEMP="$clone/temporary" BASELINES="$clone" ATTEST="$work/attest-small" \
    BASELINE="${BASELINE:-}" GITHUB_BASE_REF=main CHANGE_TARGET=main BRANCH_NAME="$3" \
    CI_COMMIT_BRANCH="$3" CI_DEFAULT_BRANCH=main \
    CI_MERGE_REQUEST_DIFF_BASE_SHA="$(git -C "$clone" rev-parse origin/main)" \
    bash "$work/$1/$2.sh") >said 2>&1 || status=$?
}
expect() {  # expect STATUS WHAT
  ((status == $1)) || { cat said; die "$2: exit code $status instead of $1"; }
}

for recipe in github.yml gitlab.yml Jenkinsfile; do
  mkdir "$recipe"
  "$python" commands.py "$here/$recipe" "$recipe"
  run_job "$recipe" judge main
  expect 0 "$recipe: judge a right kernel"
  for file in results.jsonl report.xml report.html report.md; do
    [[ -s clone/attest-report/$file ]] || die "$recipe: no $file"
  done
  run_job "$recipe" judge broken
  expect 1 "$recipe: judge a broken kernel"
  grep -q '<failure' clone/attest-report/report.xml || die "$recipe: no failure in report.xml"
  run_job "$recipe" compare harmless
  expect 0 "$recipe: compare a change that does not show"
  [[ -s clone/comparison/comparison.json ]] || die "$recipe: no comparison.json"
  run_job "$recipe" compare broken
  expect 1 "$recipe: compare a change that breaks the kernel"
done

# What compare_builds.sh asks for, with and without rounds of the environment.
printf '#!/bin/sh\necho "$*"\n' >print && chmod +x print
for rounds in '' 3; do
  said=$(ATTEST=./print ROUNDS=$rounds "$here/compare_builds.sh" out a.so b.so --impl mine)
  asked="ab --before a.so --after b.so -o out --overwrite ${rounds:+--rounds 3 }--impl mine"
  [[ $said == "$asked" ]] ||
    die "compare_builds.sh with ROUNDS='$rounds': attest $said"
done

# A baseline of a kernel that passed makes the same script compare.
export ATTEST=$work/attest-archive/bin/attest
cp clone/comparison/before.001.jsonl baseline.jsonl
git -C project checkout -q main
make -s -C project mine.so
BASELINE=baseline.jsonl FLOOR=900 "$here/judge.sh" out small.json --plugin project/mine.so \
  --impl 'mine,naive' --budget 5ms >said 2>&1 || { cat said; die "a comparison with a baseline"; }
grep -q 'no baseline' said && die "the baseline was not read"

# With rules the same script asks the gate, which a waiver satisfies though the kernel is broken.
git -C project checkout -q broken
make -s -B -C project mine.so
gate() {  # gate WAIVERS: exit code of judge.sh with them
  printf '{"rules": [{"verdict": "pass"}], "waivers": [%s]}' "$1" >rules.json
  status=0
  RULES=rules.json BASELINE=baseline.jsonl "$here/judge.sh" out small.json \
    --plugin project/mine.so --impl 'mine,naive' --budget 5ms >said 2>&1 || status=$?
}
gate ''
expect 1 "a gate without a waiver"
grep -q 'mine: verdict: fail, was pass' said || die "the gate does not say what is broken"
gate '{"impl": "mine", "reason": "known", "expires": "2999-12-31"}'
expect 0 "a gate with a waiver"
kind=$("$here/machine.sh")
[[ $kind =~ ^[[:alnum:]-]+$ ]] || die "'$kind' is no word for a machine"
echo "6 jobs of 3 recipes did what they say"
