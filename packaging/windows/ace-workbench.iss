; Inno Setup 6: iscc /DVersion=0.1.0 packaging\windows\ace-workbench.iss
; Not run by the project's checks: see README.md.

[Setup]
AppId=ace-workbench
AppName=ACE Workbench
AppVersion={#Version}
DefaultDirName={autopf}\ACE Workbench
PrivilegesRequired=lowest
DisableProgramGroupPage=yes
ChangesAssociations=yes
ChangesEnvironment=yes
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
SourceDir=..\..
OutputDir=dist
OutputBaseFilename=ace-workbench-{#Version}-windows-x64
SetupIconFile=build\icons\ace-gui.ico
UninstallDisplayIcon={app}\ace-gui.exe
LicenseFile=LICENSE

[Files]
Source: "dist\ace-workbench\*"; DestDir: "{app}"; Flags: recursesubdirs ignoreversion

[InstallDelete]
Type: filesandordirs; Name: "{app}\_internal"

[Icons]
Name: "{autoprograms}\ACE Workbench"; Filename: "{app}\ace-gui.exe"

[Registry]
; Windows knows only the last part of a file name: recipes are offered for, not taken from, YAML.
Root: HKA; Subkey: "Software\Classes\AceWorkbench.Recipe"; ValueType: string; ValueData: "ACE recipe"; Flags: uninsdeletekey
Root: HKA; Subkey: "Software\Classes\AceWorkbench.Recipe\shell\open\command"; ValueType: string; ValueData: """{app}\ace-gui.exe"" ""%1"""
Root: HKA; Subkey: "Software\Classes\.yaml\OpenWithProgids"; ValueType: string; ValueName: "AceWorkbench.Recipe"; ValueData: ""; Flags: uninsdeletevalue
Root: HKA; Subkey: "Software\Classes\.yml\OpenWithProgids"; ValueType: string; ValueName: "AceWorkbench.Recipe"; ValueData: ""; Flags: uninsdeletevalue

[Run]
Filename: "{app}\ace-gui.exe"; Parameters: "demo"; Description: "Open the sample project"; Flags: postinstall nowait skipifsilent
