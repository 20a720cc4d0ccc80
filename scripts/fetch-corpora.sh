#!/usr/bin/env bash
# Downloads the benchmark corpora. See usage() below, or run with --help.
set -euo pipefail

DJANGO_VERSIONS=(4.0 4.0.10 4.1 4.1.13 4.2 4.2.16 5.0 5.0.9)
TYPESCRIPT_VERSIONS=(5.2.2 5.3.2 5.3.3 5.4.2 5.4.3 5.4.4 5.4.5 5.5.2 5.5.3)
RANDOM_BYTES=100000000
RANDOM_SEED="oncewire benchmark corpus: random, seed 1"

usage() {
    cat <<USAGE
Usage: fetch-corpora.sh [--no-verify] DIR [CORPUS...]

Write the benchmark corpora to DIR. CORPUS is django, typescript or random
[default: all three].

  django      DIR/django/django-VERSION.tar: the source distributions of
              Django ${DJANGO_VERSIONS[*]}, uncompressed;
              about 472 MB. Downloaded with pip.
  typescript  DIR/typescript/typescript-VERSION.tar: the npm packages of
              TypeScript ${TYPESCRIPT_VERSIONS[*]},
              uncompressed; about 279 MB. Downloaded with npm.
  random      DIR/random/random.bin: ${RANDOM_BYTES} pseudo-random bytes, the
              same on every machine (SHAKE-128 of a fixed seed). Made locally.

For django and typescript, also writes DIR/CORPUS.list: the absolute paths of
the tars in release order, one per line.

Every file is checked against corpora.sha256 beside this script. A file that
exists already is checked and not downloaded again. If its checksum is wrong,
the script reports it and fails: remove the file and run the script again.

Options:
  --no-verify   do not check the files against corpora.sha256
  -h, --help    print this text

Needs bash, awk, gzip, sha256sum and python3; for django a python3 of 3.10 or
later with its venv and pip modules, and for typescript npm.
USAGE
}

die() {
    printf 'fetch-corpora: %s\n' "$*" >&2
    exit 1
}

note() {
    printf 'fetch-corpora: %s\n' "$*" >&2
}

need() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || die "$tool is needed and was not found"
    done
}

script_dir=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
sums=$script_dir/corpora.sha256
verify=yes
dir=
corpora=()

while [ $# -gt 0 ]; do
    case $1 in
        -h | --help)
            usage
            exit 0
            ;;
        --no-verify) verify=no ;;
        -*)
            usage >&2
            die "unknown option: $1"
            ;;
        *)
            if [ -z "$dir" ]; then
                dir=$1
            else
                case $1 in
                    django | typescript | random) corpora+=("$1") ;;
                    *) die "unknown corpus: $1 (one of django, typescript, random)" ;;
                esac
            fi
            ;;
    esac
    shift
done

if [ -z "$dir" ]; then
    usage >&2
    exit 2
fi
[ ${#corpora[@]} -gt 0 ] || corpora=(django typescript random)

need awk gzip python3 sha256sum
[ "$verify" = no ] || [ -f "$sums" ] || die "not found: $sums"

mkdir -p -- "$dir"
dir=$(cd -- "$dir" && pwd)
work=$(mktemp -d -- "$dir/.fetch.XXXXXX")
trap 'rm -rf -- "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# check NAME FILE: compare FILE with the checksum recorded for NAME.
check() {
    local name=$1 file=$2 want got
    [ "$verify" = yes ] || return 0
    want=$(awk -v name="$name" '$2 == name { print $1 }' "$sums")
    if [ -z "$want" ]; then
        note "$name: no checksum in corpora.sha256"
        return 1
    fi
    got=$(sha256sum < "$file")
    got=${got%% *}
    if [ "$got" != "$want" ]; then
        note "$name: sha256 is $got, expected $want"
        return 1
    fi
}

# present NAME: succeed if DIR/NAME exists and its checksum is right.
present() {
    local name=$1
    [ -e "$dir/$name" ] || return 1
    check "$name" "$dir/$name" || die "$dir/$name has the wrong checksum: remove it and run the script again"
    note "$name: exists already"
}

# place FILE NAME: check a new file and move it to DIR/NAME.
place() {
    local file=$1 name=$2
    check "$name" "$file" || die "$name: the downloaded file has the wrong checksum"
    mkdir -p -- "$(dirname -- "$dir/$name")"
    mv -- "$file" "$dir/$name"
    note "$name: done"
}

# write_list CORPUS VERSION...: the absolute tar paths, in release order.
write_list() {
    local corpus=$1 version
    shift
    for version in "$@"; do
        printf '%s\n' "$dir/$corpus/$corpus-$version.tar"
    done > "$work/list"
    mv -- "$work/list" "$dir/$corpus.list"
}

# To download a source distribution, pip also asks it for its metadata, and builds
# a new environment for each version. One shared environment avoids that.
django_python=
make_django_python() {
    [ -z "$django_python" ] || return 0
    note "django: preparing pip"
    python3 -m venv -- "$work/venv"
    django_python=$work/venv/bin/python
    "$django_python" -m pip --disable-pip-version-check install --quiet \
        'setuptools>=61,<69.3' wheel
}

fetch_django() {
    local version name got
    for version in "${DJANGO_VERSIONS[@]}"; do
        name=django/django-$version.tar
        if present "$name"; then continue; fi
        make_django_python
        note "$name: fetching"
        rm -rf -- "$work/get"
        mkdir -- "$work/get"
        "$django_python" -m pip --disable-pip-version-check download --quiet \
            --no-deps --no-binary :all: --no-build-isolation \
            --dest "$work/get" "django==$version" ||
            die "$name: pip could not fetch it"
        got=("$work"/get/[Dd]jango-*.tar.gz)
        [ ${#got[@]} -eq 1 ] && [ -f "${got[0]}" ] || die "$name: pip left no source distribution"
        gzip -dc -- "${got[0]}" > "$work/new.tar"
        place "$work/new.tar" "$name"
    done
    write_list django "${DJANGO_VERSIONS[@]}"
}

fetch_typescript() {
    local version name got
    for version in "${TYPESCRIPT_VERSIONS[@]}"; do
        name=typescript/typescript-$version.tar
        if present "$name"; then continue; fi
        need npm
        note "$name: fetching"
        rm -rf -- "$work/get"
        mkdir -- "$work/get"
        (cd -- "$work/get" && npm pack --loglevel=error "typescript@$version" > /dev/null) ||
            die "$name: npm could not fetch it"
        got=("$work"/get/typescript-*.tgz)
        [ ${#got[@]} -eq 1 ] && [ -f "${got[0]}" ] || die "$name: npm left no package"
        gzip -dc -- "${got[0]}" > "$work/new.tar"
        place "$work/new.tar" "$name"
    done
    write_list typescript "${TYPESCRIPT_VERSIONS[@]}"
}

make_random() {
    local name=random/random.bin
    if present "$name"; then return; fi
    note "$name: making"
    python3 - "$RANDOM_SEED" "$RANDOM_BYTES" "$work/random.bin" <<'PYTHON'
import hashlib
import sys

seed, size, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with open(path, "wb") as out:
    out.write(hashlib.shake_128(seed.encode()).digest(size))
PYTHON
    place "$work/random.bin" "$name"
}

for corpus in "${corpora[@]}"; do
    case $corpus in
        django) fetch_django ;;
        typescript) fetch_typescript ;;
        random) make_random ;;
    esac
done
note "all files are in $dir"
