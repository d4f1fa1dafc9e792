# Builds the bundle and its installer on Windows. Not run by the project's checks: see README.md.
# Needs Python 3.11 or newer; for the installer Inno Setup 6 (iscc on the PATH).
$ErrorActionPreference = "Stop"
Set-Location (Join-Path $PSScriptRoot "..\..")

function Invoke-Checked {
    & $args[0] $args[1..($args.Length - 1)]
    if ($LASTEXITCODE -ne 0) { throw "$($args -join ' ') failed" }
}

py -3 -m venv .venv-bundle
$python = ".venv-bundle\Scripts\python.exe"
Invoke-Checked $python -m pip install torch --index-url https://download.pytorch.org/whl/cpu
Invoke-Checked $python -m pip install ".[bundle]"
Invoke-Checked $python packaging\make_bundle.py
Invoke-Checked $python packaging\smoke_test.py dist\ace-workbench

$version = & $python -c "import ace_gui; print(ace_gui.__version__)"
if (Get-Command iscc -ErrorAction SilentlyContinue) {
    Invoke-Checked iscc "/DVersion=$version" packaging\windows\ace-workbench.iss
} else {
    Write-Output "Inno Setup (iscc) is not here: dist\ace-workbench is the application, without an installer."
}
