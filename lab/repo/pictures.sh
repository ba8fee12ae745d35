#!/usr/bin/env bash
# Renders every SVG of the repository as a page shows it, 830 px wide, on a light and on a
# dark background, so that a person can look at them.
#
#   lab/repo/pictures.sh FOLDER          all pictures
#   lab/repo/pictures.sh FOLDER a.svg …  only these
#
# CHROMIUM names the browser if it is not on the PATH under a usual name.
set -euo pipefail

[ $# -ge 1 ] || { echo "pictures: name a folder for the images, as in: make pictures TO=/tmp/pictures" >&2; exit 2; }
mkdir -p "$1"
to=$(cd "$1" && pwd)
shift

browser=${CHROMIUM:-}
for name in chromium chromium-browser google-chrome; do
  [ -n "$browser" ] || browser=$(command -v "$name" || true)
done
if [ -z "$browser" ]; then
  echo "pictures: skipped: no Chromium on the PATH; install it (Debian: apt-get install chromium) or set CHROMIUM"
  exit 0
fi

[ $# -gt 0 ] || { cd "$(dirname "$0")/../.." && mapfile -t all < <(git ls-files '*.svg') && set -- "${all[@]}"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
options=(--headless --disable-gpu --hide-scrollbars "--user-data-dir=$work/profile")
[ "$(id -u)" != 0 ] || options+=(--no-sandbox) # Chromium refuses to start as root otherwise

# render FILE MODE BACKGROUND SCHEME; a scheme is 1 for light and 0 for dark.
render() {
  local height image
  height=$(sed -n 's/.*viewBox="0 0 \([0-9.]*\) \([0-9.]*\)".*/\1 \2/p' "$1" | awk 'NR == 1 { printf "%d", $2 * 830 / $1 + 21 }')
  [ -n "$height" ] || { echo "pictures: $1 has no viewBox that begins at 0 0" >&2; return 1; }
  image="$to/$(echo "${1%.svg}" | tr / -)-$2.png"
  cat >"$work/page.html" <<PAGE
<!doctype html><meta name="color-scheme" content="light dark">
<body style="margin: 10px; background: $3"><img style="width: 830px; display: block" src="file://$(realpath "$1")">
PAGE
  "$browser" "${options[@]}" "--blink-settings=preferredColorScheme=$4" "--window-size=850,$height" \
    "--screenshot=$image" "file://$work/page.html" >"$work/log" 2>&1 && [ -s "$image" ] || { cat "$work/log" >&2; return 1; }
}

for file in "$@"; do
  render "$file" light '#ffffff' 1
  render "$file" dark '#0d1117' 0
done
echo "pictures: $# pictures, each light and dark, are in $to"
