#!/usr/bin/env bash
# Runs a command of make on a copy of this tree in a chroot of Debian sid, which has the newest Pythons.
#
# usage: chroot.sh DIRECTORY PYTHON COMMAND
#
# The chroot is made once; what the command builds in it is kept. Making it takes root and debootstrap: where one is
# missing a line says so, and nothing has failed.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
directory=$1 python=$2 command=$3

if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
  echo "chroot.sh: skipped: a chroot can be made by root with debootstrap"
  exit 0
fi
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)

packages=$python,$python-dev,$python-venv,g++,make,ccache,git,ca-certificates
if [ ! -x "$directory/usr/bin/apt-get" ]; then
  debootstrap --variant=minbase --include="$packages" sid "$directory" > "$directory.log"
fi
# What pip and the resolver know here.
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
  if [ -e "$file" ]; then cp "$file" "$directory$file"; fi
done
# A chroot that was made for another Python gets this one beside it.
if [ ! -x "$directory/usr/bin/$python" ]; then
  chroot "$directory" apt-get install --quiet --yes --no-install-recommends ${packages//,/ } >> "$directory.log" 2>&1
fi
# What was built there stays; times are kept, so that only what has changed is built again.
mkdir -p "$directory/src"
rm -rf "$directory"/src/{csrc,pijit,tests}
git -C "$root" ls-files -z --cached --others --exclude-standard |
  tar --create --directory "$root" --null --files-from - --ignore-failed-read | tar --extract --directory "$directory/src"

# The mounts are of this process and go with it.
export DIRECTORY=$directory COMMAND=$command
exec unshare --mount bash -euo pipefail -c '
  for of in proc dev sys; do mount --rbind "/$of" "$DIRECTORY/$of"; done
  exec chroot "$DIRECTORY" /usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LANG=C.UTF-8 \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt bash -c "cd /src && $COMMAND"
'
