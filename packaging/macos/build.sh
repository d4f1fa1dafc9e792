#!/bin/sh
# Builds "ACE Workbench.app" and a disk image on macOS. Not run by the project's checks: see README.md.
# Needs Python 3.11 or newer, and Xcode's command line tools.
# SIGN="Developer ID Application: …" signs; without it the application is signed for this Mac only.
set -eu
cd "$(dirname "$0")/../.."

python3 -m venv .venv-bundle
python=.venv-bundle/bin/python
$python -m pip install '.[bundle]' # for macOS, the usual torch is without CUDA
$python packaging/make_bundle.py
$python packaging/smoke_test.py dist/ace-workbench

app="dist/ACE Workbench.app"
if [ -n "${SIGN:-}" ]; then
    codesign --force --deep --options runtime --timestamp \
        --entitlements packaging/macos/entitlements.plist --sign "$SIGN" "$app"
fi
version=$($python -c "import ace_gui; print(ace_gui.__version__)")
image=dist/ace-workbench-$version-macos-$(uname -m).dmg
rm -rf build/image && mkdir -p build/image
cp -R "$app" build/image/
ln -s /Applications build/image/Applications
hdiutil create -volname "ACE Workbench" -srcfolder build/image -ov -format UDZO "$image"
echo "$image"
