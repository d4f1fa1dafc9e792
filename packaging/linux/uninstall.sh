#!/bin/sh
# Removes what install.sh put there. Settings, caches and your own methods stay; the last lines say
# where they are.
set -eu

id=io.github.ace_workbench
data=${XDG_DATA_HOME:-$HOME/.local/share}
bin=${ACE_BIN:-$HOME/.local/bin}
target=$data/ace-workbench

if [ "$(readlink "$bin/ace-gui" 2>/dev/null || true)" = "$target/application/ace-gui" ]; then
    rm "$bin/ace-gui"
fi
rm -rf "$target/application"
rm -f "$target/uninstall.sh"
rm -f "$data/applications/$id.desktop" "$data/mime/packages/$id.xml" \
    "$data/metainfo/$id.metainfo.xml"
find "$data/icons/hicolor" \( -name "$id.png" -o -name "$id.svg" \) -exec rm {} +
rmdir "$target" 2>/dev/null || true

if command -v update-desktop-database >/dev/null; then update-desktop-database -q "$data/applications"; fi
if command -v update-mime-database >/dev/null; then update-mime-database "$data/mime"; fi
if command -v gtk-update-icon-cache >/dev/null; then gtk-update-icon-cache -qtf "$data/icons/hicolor"; fi

echo "Removed. Left as they are: your settings and methods in ${XDG_CONFIG_HOME:-$HOME/.config}, and"
echo "the cache in ${XDG_CACHE_HOME:-$HOME/.cache}/ace-workbench."
