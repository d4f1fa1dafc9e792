#!/bin/sh
# Installs the ACE Workbench for the person who runs this, without root; again to update.
#
#   ./install.sh               below ${XDG_DATA_HOME:-~/.local/share} and ~/.local/bin
#   ACE_BIN=DIR ./install.sh   the command in another folder
set -eu

id=io.github.ace_workbench
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
data=${XDG_DATA_HOME:-$HOME/.local/share}
bin=${ACE_BIN:-$HOME/.local/bin}
target=$data/ace-workbench/application

mkdir -p "$data/ace-workbench" "$bin" "$data/applications"
# Beside the old one first, so that an installation that fails leaves the old one whole.
rm -rf "$target.new"
cp -R "$here/application" "$target.new"
rm -rf "$target"
mv "$target.new" "$target"
cp "$here/uninstall.sh" "$data/ace-workbench/uninstall.sh"
ln -sf "$target/ace-gui" "$bin/ace-gui"

cp -R "$here/share/." "$data/"
# A desktop session may not have ~/.local/bin among its paths: the entry names the file itself.
sed -e "s|^Exec=ace-gui|Exec=\"$target/ace-gui\"|" -e "s|^TryExec=ace-gui|TryExec=$target/ace-gui|" \
    "$here/share/applications/$id.desktop" >"$data/applications/$id.desktop"

if command -v update-desktop-database >/dev/null; then update-desktop-database -q "$data/applications"; fi
if command -v update-mime-database >/dev/null; then update-mime-database "$data/mime"; fi
if command -v gtk-update-icon-cache >/dev/null; then gtk-update-icon-cache -qtf "$data/icons/hicolor"; fi

echo "Installed: $target"
case ":$PATH:" in
*":$bin:"*) echo "Start it from the menu, or with: ace-gui" ;;
*) echo "Start it from the menu, or with: $bin/ace-gui ($bin is not on your PATH)" ;;
esac
echo "To remove it: sh $data/ace-workbench/uninstall.sh"
