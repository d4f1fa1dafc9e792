<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de" sourcelanguage="en">
<context>
<name>window</name>
<message>
<source> GB</source>
<translation> GB</translation>
</message>
<message numerus="yes">
<source>%n are loaded now.</source>
<translation><numerusform>%n ist jetzt geladen.</numerusform><numerusform>%n sind jetzt geladen.</numerusform></translation>
</message>
<message numerus="yes">
<source>%n checks passed</source>
<translation><numerusform>%n Prüfung bestanden</numerusform><numerusform>%n Prüfungen bestanden</numerusform></translation>
</message>
<message numerus="yes">
<source>%n entries lie further from zero than is drawn.</source>
<translation><numerusform>%n Eintrag liegt weiter von null, als gezeichnet ist.</numerusform><numerusform>%n Einträge liegen weiter von null, als gezeichnet ist.</numerusform></translation>
</message>
<message numerus="yes">
<source>%n errors</source>
<translation><numerusform>%n Fehler</numerusform><numerusform>%n Fehler</numerusform></translation>
</message>
<message numerus="yes">
<source>%n examples</source>
<translation><numerusform>%n Beispiel</numerusform><numerusform>%n Beispiele</numerusform></translation>
</message>
<message numerus="yes">
<source>%n experts</source>
<translation><numerusform>%n Experte</numerusform><numerusform>%n Experten</numerusform></translation>
</message>
<message numerus="yes">
<source>%n experts into {base}</source>
<translation><numerusform>%n Experte in {base}</numerusform><numerusform>%n Experten in {base}</numerusform></translation>
</message>
<message numerus="yes">
<source>%n have not been exported.</source>
<translation><numerusform>%n wurde nicht exportiert.</numerusform><numerusform>%n wurden nicht exportiert.</numerusform></translation>
</message>
<message numerus="yes">
<source>%n listed tensors</source>
<translation><numerusform>%n aufgezählter Tensor</numerusform><numerusform>%n aufgezählte Tensoren</numerusform></translation>
</message>
<message numerus="yes">
<source>%n matrices</source>
<translation><numerusform>%n Matrix</numerusform><numerusform>%n Matrizen</numerusform></translation>
</message>
<message numerus="yes">
<source>%n matrices have warnings</source>
<translation><numerusform>%n Matrix hat eine Warnung</numerusform><numerusform>%n Matrizen haben Warnungen</numerusform></translation>
</message>
<message numerus="yes">
<source>%n methods</source>
<translation><numerusform>%n Methode</numerusform><numerusform>%n Methoden</numerusform></translation>
</message>
<message numerus="yes">
<source>%n of {known} matrices are heterogeneous</source>
<translation><numerusform>%n von {known} Matrizen ist heterogen</numerusform><numerusform>%n von {known} Matrizen sind heterogen</numerusform></translation>
</message>
<message numerus="yes">
<source>%n other tensors are not shown.</source>
<translation><numerusform>%n anderer Tensor wird nicht gezeigt.</numerusform><numerusform>%n andere Tensoren werden nicht gezeigt.</numerusform></translation>
</message>
<message numerus="yes">
<source>%n overrides</source>
<translation><numerusform>%n Ausnahme</numerusform><numerusform>%n Ausnahmen</numerusform></translation>
</message>
<message numerus="yes">
<source>%n tensors</source>
<translation><numerusform>%n Tensor</numerusform><numerusform>%n Tensoren</numerusform></translation>
</message>
<message numerus="yes">
<source>%n threads</source>
<translation><numerusform>%n Thread</numerusform><numerusform>%n Threads</numerusform></translation>
</message>
<message numerus="yes">
<source>%n values under {floor}·{symbol}₁ cut off</source>
<translation><numerusform>%n Wert unter {floor}·{symbol}₁ abgeschnitten</numerusform><numerusform>%n Werte unter {floor}·{symbol}₁ abgeschnitten</numerusform></translation>
</message>
<message numerus="yes">
<source>%n warnings</source>
<translation><numerusform>%n Warnung</numerusform><numerusform>%n Warnungen</numerusform></translation>
</message>
<message numerus="yes">
<source>%n workers on this machine</source>
<translation><numerusform>%n Arbeiter auf diesem Rechner</numerusform><numerusform>%n Arbeiter auf diesem Rechner</numerusform></translation>
</message>
<message>
<source>&amp;About</source>
<translation>Ü&amp;ber</translation>
</message>
<message numerus="yes">
<source>&amp;Add %n experts</source>
<translation><numerusform>%n Experten &amp;hinzufügen</numerusform><numerusform>%n Experten &amp;hinzufügen</numerusform></translation>
</message>
<message>
<source>&amp;Address…</source>
<translation>&amp;Adresse…</translation>
</message>
<message>
<source>&amp;Average</source>
<translation>&amp;Mitteln</translation>
</message>
<message>
<source>&amp;Cancel</source>
<translation>&amp;Abbrechen</translation>
</message>
<message>
<source>&amp;Clean up kept merges…</source>
<translation>Behaltene Merges &amp;aufräumen…</translation>
</message>
<message>
<source>&amp;Close models</source>
<translation>Modelle s&amp;chließen</translation>
</message>
<message>
<source>&amp;Colours</source>
<translation>&amp;Farben</translation>
</message>
<message>
<source>&amp;Commands…</source>
<translation>&amp;Befehle…</translation>
</message>
<message>
<source>&amp;Compare</source>
<translation>&amp;Vergleichen</translation>
</message>
<message>
<source>&amp;Compare {count}</source>
<translation>{count} &amp;vergleichen</translation>
</message>
<message>
<source>&amp;Copy</source>
<translation>&amp;Kopieren</translation>
</message>
<message>
<source>&amp;Dark</source>
<translation>&amp;Dunkel</translation>
</message>
<message>
<source>&amp;Delete</source>
<translation>&amp;Löschen</translation>
</message>
<message>
<source>&amp;Delete {count}</source>
<translation>{count} &amp;löschen</translation>
</message>
<message>
<source>&amp;Device</source>
<translation>&amp;Gerät</translation>
</message>
<message>
<source>&amp;Don't save</source>
<translation>&amp;Nicht speichern</translation>
</message>
<message>
<source>&amp;Edit</source>
<translation>&amp;Bearbeiten</translation>
</message>
<message>
<source>&amp;Expert</source>
<translation>&amp;Experte</translation>
</message>
<message>
<source>&amp;Export…</source>
<translation>&amp;Exportieren…</translation>
</message>
<message>
<source>&amp;File</source>
<translation>&amp;Datei</translation>
</message>
<message>
<source>&amp;Files…</source>
<translation>&amp;Dateien…</translation>
</message>
<message>
<source>&amp;File…</source>
<translation>&amp;Datei…</translation>
</message>
<message>
<source>&amp;Find layer</source>
<translation>Schicht &amp;finden</translation>
</message>
<message>
<source>&amp;First</source>
<translation>&amp;Erster</translation>
</message>
<message>
<source>&amp;Glossary</source>
<translation>&amp;Glossar</translation>
</message>
<message>
<source>&amp;Help</source>
<translation>&amp;Hilfe</translation>
</message>
<message>
<source>&amp;Help pages</source>
<translation>&amp;Hilfeseiten</translation>
</message>
<message>
<source>&amp;Keep</source>
<translation>&amp;Behalten</translation>
</message>
<message>
<source>&amp;Keep exporting</source>
<translation>&amp;Weiter exportieren</translation>
</message>
<message>
<source>&amp;Keep from the base</source>
<translation>Aus der &amp;Basis behalten</translation>
</message>
<message>
<source>&amp;Keep merging</source>
<translation>&amp;Weiter zusammenführen</translation>
</message>
<message>
<source>&amp;Keyboard shortcuts</source>
<translation>&amp;Tastenkürzel</translation>
</message>
<message>
<source>&amp;Kind</source>
<translation>A&amp;rt</translation>
</message>
<message>
<source>&amp;Labels</source>
<translation>&amp;Labels</translation>
</message>
<message>
<source>&amp;Light</source>
<translation>&amp;Hell</translation>
</message>
<message>
<source>&amp;Log</source>
<translation>&amp;Protokoll</translation>
</message>
<message>
<source>&amp;Merge</source>
<translation>&amp;Zusammenführen</translation>
</message>
<message>
<source>&amp;Merge by</source>
<translation>&amp;Zusammenführen mit</translation>
</message>
<message>
<source>&amp;Merges</source>
<translation>&amp;Merges</translation>
</message>
<message>
<source>&amp;Method…</source>
<translation>&amp;Methode…</translation>
</message>
<message>
<source>&amp;Metric</source>
<translation>&amp;Maß</translation>
</message>
<message>
<source>&amp;Most heterogeneous layer</source>
<translation>&amp;Heterogenste Schicht</translation>
</message>
<message>
<source>&amp;Name</source>
<translation>&amp;Name</translation>
</message>
<message>
<source>&amp;Next layer</source>
<translation>&amp;Nächste Schicht</translation>
</message>
<message>
<source>&amp;None</source>
<translation>K&amp;eine</translation>
</message>
<message>
<source>&amp;Open</source>
<translation>Ö&amp;ffnen</translation>
</message>
<message numerus="yes">
<source>&amp;Open with %n experts</source>
<translation><numerusform>Mit %n Experten ö&amp;ffnen</numerusform><numerusform>Mit %n Experten ö&amp;ffnen</numerusform></translation>
</message>
<message>
<source>&amp;Other…</source>
<translation>&amp;Andere…</translation>
</message>
<message>
<source>&amp;Preferences…</source>
<translation>&amp;Einstellungen…</translation>
</message>
<message>
<source>&amp;Previous layer</source>
<translation>&amp;Vorige Schicht</translation>
</message>
<message>
<source>&amp;Quit</source>
<translation>Been&amp;den</translation>
</message>
<message>
<source>&amp;Redo</source>
<translation>&amp;Wiederholen</translation>
</message>
<message>
<source>&amp;Report a problem…</source>
<translation>&amp;Problem melden…</translation>
</message>
<message>
<source>&amp;Report…</source>
<translation>&amp;Bericht…</translation>
</message>
<message>
<source>&amp;Reset</source>
<translation>&amp;Zurücksetzen</translation>
</message>
<message>
<source>&amp;Reset layout</source>
<translation>&amp;Anordnung zurücksetzen</translation>
</message>
<message>
<source>&amp;Restore</source>
<translation>&amp;Wiederherstellen</translation>
</message>
<message>
<source>&amp;Save</source>
<translation>&amp;Speichern</translation>
</message>
<message>
<source>&amp;Second</source>
<translation>&amp;Zweiter</translation>
</message>
<message>
<source>&amp;Seed</source>
<translation>&amp;Startwert</translation>
</message>
<message>
<source>&amp;Stop</source>
<translation>&amp;Anhalten</translation>
</message>
<message>
<source>&amp;Stop and close</source>
<translation>&amp;Anhalten und schließen</translation>
</message>
<message>
<source>&amp;Temperature</source>
<translation>&amp;Temperatur</translation>
</message>
<message>
<source>&amp;Try the sample</source>
<translation>Beis&amp;piel ausprobieren</translation>
</message>
<message>
<source>&amp;Tutorial</source>
<translation>&amp;Einführung</translation>
</message>
<message>
<source>&amp;Undo</source>
<translation>&amp;Rückgängig</translation>
</message>
<message>
<source>&amp;Use this</source>
<translation>Diesen &amp;nehmen</translation>
</message>
<message>
<source>&amp;Use this method</source>
<translation>Diese Methode &amp;nehmen</translation>
</message>
<message>
<source>&amp;Use {title}</source>
<translation>{title} &amp;nehmen</translation>
</message>
<message>
<source>&amp;View</source>
<translation>&amp;Ansicht</translation>
</message>
<message>
<source>&amp;Why no GPU?</source>
<translation>&amp;Warum keine GPU?</translation>
</message>
<message>
<source>&amp;Why not every GPU?</source>
<translation>&amp;Warum nicht jede GPU?</translation>
</message>
<message>
<source>(and {count} more: hover over it)</source>
<translation>(und {count} weitere: Maus darauf halten)</translation>
</message>
<message>
<source>0, unchanged</source>
<translation>0, unverändert</translation>
</message>
<message>
<source>0.1, 0.2, 0.5</source>
<translation>0,1; 0,2; 0,5</translation>
</message>
<message>
<source>30 days</source>
<translation>30 Tage</translation>
</message>
<message>
<source>90 days</source>
<translation>90 Tage</translation>
</message>
<message>
<source>A close look at the chosen tensor</source>
<translation>Der gewählte Tensor aus der Nähe</translation>
</message>
<message>
<source>A folder; its experts are added next</source>
<translation>Ein Ordner; seine Experten kommen danach</translation>
</message>
<message>
<source>A merge is running.</source>
<translation>Ein Merge läuft.</translation>
</message>
<message>
<source>A merge that needs more is refused before it starts.</source>
<translation>Ein Merge, der mehr braucht, wird abgelehnt, bevor er beginnt.</translation>
</message>
<message>
<source>A merge would fail: see the errors. Merge says how to check again.</source>
<translation>Ein Merge würde scheitern: siehe die Fehler. „Zusammenführen“ sagt, wie erneut geprüft wird.</translation>
</message>
<message>
<source>A message of the desktop, where the window is not in front by then.</source>
<translation>Eine Meldung des Desktops, wenn das Fenster dann nicht vorn ist.</translation>
</message>
<message>
<source>A method that learns from data, such as AdaMerging, draws its loss here, step by step.</source>
<translation>Eine Methode, die aus Daten lernt, wie AdaMerging, zeichnet hier ihren Verlust, Schritt für Schritt.</translation>
</message>
<message>
<source>A report is being written.</source>
<translation>Ein Bericht wird geschrieben.</translation>
</message>
<message>
<source>A task is data of your own that the models are tried on: a table, a text, or a folder of pictures by class. Drop it here, or add it.</source>
<translation>Eine Aufgabe sind eigene Daten, an denen die Modelle erprobt werden: eine Tabelle, ein Text oder ein Ordner mit Bildern nach Klassen. Hier ablegen oder hinzufügen.</translation>
</message>
<message>
<source>A vision transformer of 72 tensors and five models fine-tuned from it. Merges in a few seconds; nothing is downloaded.</source>
<translation>Ein Vision Transformer mit 72 Tensoren und fünf daraus feinabgestimmte Modelle. In wenigen Sekunden zusammengeführt; nichts wird heruntergeladen.</translation>
</message>
<message>
<source>A week</source>
<translation>Eine Woche</translation>
</message>
<message>
<source>A whole model for each expert's head</source>
<translation>Ein ganzes Modell für den Kopf jedes Experten</translation>
</message>
<message>
<source>ACE estimates covariances only for the matrices that it merges.</source>
<translation>ACE schätzt Kovarianzen nur für die Matrizen, die es zusammenführt.</translation>
</message>
<message>
<source>ACE estimates the covariance of an expert's inputs from its changes alone. Give each expert's task calibration inputs to see how good the estimate is for your models.</source>
<translation>ACE schätzt die Kovarianz der Eingaben eines Experten allein aus seinen Änderungen. Geben Sie der Aufgabe jedes Experten Kalibrierungsdaten, um zu sehen, wie gut die Schätzung für Ihre Modelle ist.</translation>
</message>
<message>
<source>ACE with the measured covariances is chosen.</source>
<translation>ACE mit den gemessenen Kovarianzen ist gewählt.</translation>
</message>
<message>
<source>ACE-Merging</source>
<translation>ACE-Merging</translation>
</message>
<message>
<source>About ACE Workbench</source>
<translation>Über ACE Workbench</translation>
</message>
<message>
<source>Above {low} to {high}.</source>
<translation>Über {low} bis {high}.</translation>
</message>
<message>
<source>Above {low}.</source>
<translation>Über {low}.</translation>
</message>
<message>
<source>Accepted: Merge does not ask again for these models.</source>
<translation>Angenommen: „Zusammenführen“ fragt für diese Modelle nicht mehr nach.</translation>
</message>
<message>
<source>Add &amp;experts…</source>
<translation>&amp;Experten hinzufügen…</translation>
</message>
<message>
<source>Add a task first.</source>
<translation>Fügen Sie zuerst eine Aufgabe hinzu.</translation>
</message>
<message>
<source>Add a task: a file of data, or a folder</source>
<translation>Eine Aufgabe hinzufügen: eine Datei mit Daten oder einen Ordner</translation>
</message>
<message>
<source>Add an expert first.</source>
<translation>Fügen Sie zuerst einen Experten hinzu.</translation>
</message>
<message>
<source>Add an override</source>
<translation>Ausnahme hinzufügen</translation>
</message>
<message>
<source>Add an override that merges them by the automatic variant</source>
<translation>Eine Ausnahme hinzufügen, die sie mit der automatischen Variante zusammenführt</translation>
</message>
<message>
<source>Add as experts</source>
<translation>Als Experten hinzufügen</translation>
</message>
<message>
<source>Add data</source>
<translation>Daten hinzufügen</translation>
</message>
<message>
<source>Add data…</source>
<translation>Daten hinzufügen…</translation>
</message>
<message>
<source>Add experts from f&amp;iles…</source>
<translation>Experten aus Date&amp;ien hinzufügen…</translation>
</message>
<message>
<source>Add experts to see where they disagree.</source>
<translation>Fügen Sie Experten hinzu, um zu sehen, wo sie sich unterscheiden.</translation>
</message>
<message>
<source>Add experts…</source>
<translation>Experten hinzufügen…</translation>
</message>
<message>
<source>Add models fine-tuned from the base; or drop their folders here</source>
<translation>Aus der Basis feinabgestimmte Modelle hinzufügen; oder ihre Ordner hier ablegen</translation>
</message>
<message>
<source>Address of a Ray cluster (ray://HOST:PORT), or local:N for N workers here</source>
<translation>Adresse eines Ray-Clusters (ray://HOST:PORT), oder local:N für N Arbeiter hier</translation>
</message>
<message>
<source>Add…</source>
<translation>Neu…</translation>
</message>
<message>
<source>After the blocks</source>
<translation>Nach den Blöcken</translation>
</message>
<message>
<source>Against the base</source>
<translation>Mit der Basis</translation>
</message>
<message>
<source>Against the experts</source>
<translation>Mit den Experten</translation>
</message>
<message>
<source>All</source>
<translation>Alle</translation>
</message>
<message>
<source>All layers</source>
<translation>Alle Schichten</translation>
</message>
<message>
<source>All of {title}, {subject}</source>
<translation>Alles zu {title}, {subject}</translation>
</message>
<message>
<source>All roles</source>
<translation>Alle Rollen</translation>
</message>
<message>
<source>All tasks</source>
<translation>Alle Aufgaben</translation>
</message>
<message>
<source>All tensors</source>
<translation>Alle Tensoren</translation>
</message>
<message>
<source>All {count}</source>
<translation>Alle {count}</translation>
</message>
<message>
<source>Among</source>
<translation>Unter</translation>
</message>
<message>
<source>An export is running.</source>
<translation>Ein Export läuft.</translation>
</message>
<message>
<source>An image of each task: {tasks}</source>
<translation>Ein Bild jeder Aufgabe: {tasks}</translation>
</message>
<message>
<source>Another language begins with the next start.</source>
<translation>Eine andere Sprache gilt ab dem nächsten Start.</translation>
</message>
<message>
<source>Another one was started; what is finished is kept.</source>
<translation>Eine neue wurde gestartet; was fertig ist, bleibt erhalten.</translation>
</message>
<message>
<source>Appearance</source>
<translation>Aussehen</translation>
</message>
<message>
<source>Apply</source>
<translation>Übernehmen</translation>
</message>
<message>
<source>Architecture</source>
<translation>Architektur</translation>
</message>
<message>
<source>As</source>
<translation>Als</translation>
</message>
<message>
<source>As many as there are</source>
<translation>So viele, wie es gibt</translation>
</message>
<message>
<source>As the &amp;system</source>
<translation>Wie das &amp;System</translation>
</message>
<message>
<source>As the system</source>
<translation>Wie das System</translation>
</message>
<message>
<source>Ask both models where their answers are not known yet</source>
<translation>Beide Modelle fragen, wo ihre Antworten noch nicht bekannt sind</translation>
</message>
<message>
<source>At least {low}.</source>
<translation>Mindestens {low}.</translation>
</message>
<message>
<source>At most {high}.</source>
<translation>Höchstens {high}.</translation>
</message>
<message>
<source>Automatic</source>
<translation>Automatisch</translation>
</message>
<message>
<source>Automatic variant</source>
<translation>Automatische Variante</translation>
</message>
<message>
<source>Back to the default</source>
<translation>Zurück zum Standard</translation>
</message>
<message>
<source>Back to the values of the recipe</source>
<translation>Zurück zu den Werten des Rezepts</translation>
</message>
<message>
<source>Base</source>
<translation>Basis</translation>
</message>
<message>
<source>Base model</source>
<translation>Basismodell</translation>
</message>
<message>
<source>Before the blocks</source>
<translation>Vor den Blöcken</translation>
</message>
<message>
<source>Block {block}</source>
<translation>Block {block}</translation>
</message>
<message>
<source>Blocks</source>
<translation>Blöcke</translation>
</message>
<message>
<source>Blocks {error}.</source>
<translation>Blöcke {error}.</translation>
</message>
<message>
<source>Both variants, as the values stand. Change one on the left to see what it does.</source>
<translation>Beide Varianten mit den jetzigen Werten. Ändern Sie links einen, um zu sehen, was er bewirkt.</translation>
</message>
<message>
<source>Both wrong</source>
<translation>Beide falsch</translation>
</message>
<message>
<source>Bound on the condition number of the solved system</source>
<translation>Schranke für die Konditionszahl des gelösten Systems</translation>
</message>
<message>
<source>Browse for the target folder</source>
<translation>Den Zielordner suchen</translation>
</message>
<message>
<source>Browse…</source>
<translation>Durchsuchen…</translation>
</message>
<message>
<source>By how much a cap shortened the change; 1: it was short enough</source>
<translation>So sehr hat eine Obergrenze die Änderung gekürzt; 1: sie war kurz genug</translation>
</message>
<message>
<source>By role</source>
<translation>Nach Rolle</translation>
</message>
<message>
<source>C&amp;ompare methods…</source>
<translation>Methoden &amp;vergleichen…</translation>
</message>
<message>
<source>Calibration</source>
<translation>Kalibrierung</translation>
</message>
<message>
<source>Calibration inputs</source>
<translation>Kalibrierungsdaten</translation>
</message>
<message>
<source>Cancel</source>
<translation>Abbrechen</translation>
</message>
<message>
<source>Cap</source>
<translation>Obergrenze</translation>
</message>
<message>
<source>Cap on the change</source>
<translation>Obergrenze der Änderung</translation>
</message>
<message>
<source>Cap δ</source>
<translation>Obergrenze δ</translation>
</message>
<message>
<source>Centred cosine of each expert's estimate (row) with each expert's inputs (column)</source>
<translation>Zentrierter Kosinus der Schätzung jedes Experten (Zeile) mit den Eingaben jedes Experten (Spalte)</translation>
</message>
<message>
<source>Centred cosine of each expert's estimate with its own inputs, and with those of the other experts</source>
<translation>Zentrierter Kosinus der Schätzung jedes Experten mit seinen eigenen Eingaben und mit denen der anderen Experten</translation>
</message>
<message>
<source>Change a value on the left to see what it does to this layer.</source>
<translation>Ändern Sie links einen Wert, um zu sehen, was er in dieser Schicht bewirkt.</translation>
</message>
<message>
<source>Change it again</source>
<translation>Wieder ändern</translation>
</message>
<message>
<source>Change the base model</source>
<translation>Das Basismodell wechseln</translation>
</message>
<message>
<source>Change the method</source>
<translation>Die Methode wechseln</translation>
</message>
<message>
<source>Change the selected override</source>
<translation>Die gewählte Ausnahme ändern</translation>
</message>
<message>
<source>Change ‖ΔW‖</source>
<translation>Änderung ‖ΔW‖</translation>
</message>
<message>
<source>Change…</source>
<translation>Ändern…</translation>
</message>
<message>
<source>Check again</source>
<translation>Erneut prüfen</translation>
</message>
<message>
<source>Checks</source>
<translation>Prüfung</translation>
</message>
<message>
<source>Checks ({count})</source>
<translation>Prüfungen ({count})</translation>
</message>
<message>
<source>Choose .safetensors files</source>
<translation>.safetensors-Dateien wählen</translation>
</message>
<message>
<source>Choose a .safetensors file</source>
<translation>Eine .safetensors-Datei wählen</translation>
</message>
<message>
<source>Choose a cell to see the layer's spectrum; a dot: heterogeneous (γ &gt; τ).</source>
<translation>Wählen Sie eine Zelle, um das Spektrum der Schicht zu sehen; Punkt: heterogen (γ &gt; τ).</translation>
</message>
<message>
<source>Choose a folder for the merged model.</source>
<translation>Wählen Sie einen Ordner für das zusammengeführte Modell.</translation>
</message>
<message>
<source>Choose a layer in the table or in the plot below.</source>
<translation>Wählen Sie eine Schicht in der Tabelle oder in der Grafik darunter.</translation>
</message>
<message>
<source>Choose a layer to compare its covariances.</source>
<translation>Wählen Sie eine Schicht, um ihre Kovarianzen zu vergleichen.</translation>
</message>
<message>
<source>Choose a layer to compare its experts.</source>
<translation>Wählen Sie eine Schicht, um ihre Experten zu vergleichen.</translation>
</message>
<message>
<source>Choose a layer to see both spectra.</source>
<translation>Wählen Sie eine Schicht, um beide Spektren zu sehen.</translation>
</message>
<message>
<source>Choose a layer to see how its changes are distributed.</source>
<translation>Wählen Sie eine Schicht, um zu sehen, wie ihre Änderungen verteilt sind.</translation>
</message>
<message>
<source>Choose a layer to see how much each expert changed it.</source>
<translation>Wählen Sie eine Schicht, um zu sehen, wie sehr jeder Experte sie geändert hat.</translation>
</message>
<message>
<source>Choose a layer to see its covariances.</source>
<translation>Wählen Sie eine Schicht, um ihre Kovarianzen zu sehen.</translation>
</message>
<message>
<source>Choose a layer to see its energies; the legend hides experts.</source>
<translation>Wählen Sie eine Schicht, um ihre Energien zu sehen; die Legende blendet Experten aus.</translation>
</message>
<message>
<source>Choose a layer to see its singular values.</source>
<translation>Wählen Sie eine Schicht, um ihre Singulärwerte zu sehen.</translation>
</message>
<message>
<source>Choose a layer to see its spectrum; drag the line to change τ.</source>
<translation>Wählen Sie eine Schicht, um ihr Spektrum zu sehen; ziehen Sie die Linie, um τ zu ändern.</translation>
</message>
<message>
<source>Choose a layer to see what refinement did to its directions.</source>
<translation>Wählen Sie eine Schicht, um zu sehen, was die Verfeinerung mit ihren Richtungen gemacht hat.</translation>
</message>
<message>
<source>Choose a parameter and a range, and start: the curve grows merge by merge.</source>
<translation>Wählen Sie Parameter und Bereich und starten Sie: Die Kurve wächst mit jedem Merge.</translation>
</message>
<message>
<source>Choose a picture</source>
<translation>Ein Bild wählen</translation>
</message>
<message>
<source>Choose a recipe (.yaml)</source>
<translation>Ein Rezept wählen (.yaml)</translation>
</message>
<message>
<source>Choose a role, blocks or names.</source>
<translation>Wählen Sie eine Rolle, Blöcke oder Namen.</translation>
</message>
<message>
<source>Choose an example</source>
<translation>Wählen Sie ein Beispiel</translation>
</message>
<message>
<source>Choose another base model under the same experts</source>
<translation>Ein anderes Basismodell unter denselben Experten wählen</translation>
</message>
<message>
<source>Choose another disk, or free some space.</source>
<translation>Wählen Sie einen anderen Datenträger, oder schaffen Sie Platz.</translation>
</message>
<message>
<source>Choose calibration inputs</source>
<translation>Kalibrierungsdaten wählen</translation>
</message>
<message>
<source>Choose data…</source>
<translation>Daten wählen …</translation>
</message>
<message>
<source>Choose folders of fine-tuned models, several at once, or a folder of such folders</source>
<translation>Ordner feinabgestimmter Modelle wählen, mehrere auf einmal, oder einen Ordner mit solchen Ordnern</translation>
</message>
<message>
<source>Choose models that were downloaded before; nothing is downloaded now</source>
<translation>Früher heruntergeladene Modelle wählen; jetzt wird nichts heruntergeladen</translation>
</message>
<message>
<source>Choose picture…</source>
<translation>Bild wählen…</translation>
</message>
<message>
<source>Choose the folder of the base model</source>
<translation>Den Ordner des Basismodells wählen</translation>
</message>
<message>
<source>Choose the merge method, and read what it does</source>
<translation>Die Methode wählen und lesen, was sie tut</translation>
</message>
<message>
<source>Choose the variant of ACE that takes the measured covariances, not estimates.</source>
<translation>Die Variante von ACE wählen, die die gemessenen Kovarianzen nimmt, nicht Schätzungen.</translation>
</message>
<message>
<source>Choose two different merges.</source>
<translation>Wählen Sie zwei verschiedene Merges.</translation>
</message>
<message>
<source>Choose two different models.</source>
<translation>Wählen Sie zwei verschiedene Modelle.</translation>
</message>
<message>
<source>Choose two merges to compare.</source>
<translation>Wählen Sie zwei Merges, um sie zu vergleichen.</translation>
</message>
<message>
<source>Choose which kept merges to remove from the disk</source>
<translation>Wählen, welche behaltenen Merges vom Datenträger entfernt werden</translation>
</message>
<message>
<source>Choose: {name}</source>
<translation>Wählen: {name}</translation>
</message>
<message>
<source>Choose…</source>
<translation>Wählen…</translation>
</message>
<message>
<source>Clean up kept merges</source>
<translation>Behaltene Merges aufräumen</translation>
</message>
<message>
<source>Clean up the kept runs</source>
<translation>Die behaltenen Läufe aufräumen</translation>
</message>
<message>
<source>Clean up…</source>
<translation>Aufräumen…</translation>
</message>
<message>
<source>Close</source>
<translation>Schließen</translation>
</message>
<message>
<source>Close the window</source>
<translation>Das Fenster schließen</translation>
</message>
<message>
<source>Cluster: {chosen}</source>
<translation>Cluster: {chosen}</translation>
</message>
<message>
<source>Colours</source>
<translation>Farben</translation>
</message>
<message>
<source>Colours: as the system</source>
<translation>Farben: wie das System</translation>
</message>
<message>
<source>Colours: dark</source>
<translation>Farben: dunkel</translation>
</message>
<message>
<source>Colours: light</source>
<translation>Farben: hell</translation>
</message>
<message>
<source>Column: {role}</source>
<translation>Spalte: {role}</translation>
</message>
<message>
<source>Command</source>
<translation>Befehl</translation>
</message>
<message>
<source>Commands</source>
<translation>Befehle</translation>
</message>
<message>
<source>Commands found</source>
<translation>Gefundene Befehle</translation>
</message>
<message>
<source>Compare</source>
<translation>Vergleich</translation>
</message>
<message>
<source>Compare &amp;layers</source>
<translation>&amp;Schichten vergleichen</translation>
</message>
<message>
<source>Compare all layers</source>
<translation>Alle Schichten vergleichen</translation>
</message>
<message>
<source>Compare layer by layer: two runs, or this merge</source>
<translation>Schicht für Schicht vergleichen: zwei Läufe, oder diesen Merge</translation>
</message>
<message>
<source>Compare the answers</source>
<translation>Antworten vergleichen</translation>
</message>
<message>
<source>Compare the answers of the merge and the experts</source>
<translation>Die Antworten von Merge und Experten vergleichen</translation>
</message>
<message>
<source>Compare the two selected merges layer by layer</source>
<translation>Die beiden gewählten Merges Schicht für Schicht vergleichen</translation>
</message>
<message>
<source>Comparing covariances</source>
<translation>Kovarianzen werden verglichen</translation>
</message>
<message>
<source>Comparing the answers …</source>
<translation>Antworten werden verglichen …</translation>
</message>
<message>
<source>Comparing the experts</source>
<translation>Experten werden verglichen</translation>
</message>
<message>
<source>Comparing …</source>
<translation>Vergleich läuft …</translation>
</message>
<message>
<source>Computing</source>
<translation>Rechnen</translation>
</message>
<message>
<source>Computing both spectra …</source>
<translation>Beide Spektren werden berechnet …</translation>
</message>
<message>
<source>Computing…</source>
<translation>Wird berechnet…</translation>
</message>
<message>
<source>Continue &amp;merge</source>
<translation>Weiter &amp;zusammenführen</translation>
</message>
<message>
<source>Convert and open</source>
<translation>Umwandeln und öffnen</translation>
</message>
<message>
<source>Copied</source>
<translation>Kopiert</translation>
</message>
<message>
<source>Copy</source>
<translation>Kopieren</translation>
</message>
<message>
<source>Copy &amp;diagnostics</source>
<translation>&amp;Diagnose kopieren</translation>
</message>
<message>
<source>Copy code</source>
<translation>Code kopieren</translation>
</message>
<message>
<source>Copy picture</source>
<translation>Bild kopieren</translation>
</message>
<message>
<source>Copy table</source>
<translation>Tabelle kopieren</translation>
</message>
<message>
<source>Copy the message and its details</source>
<translation>Die Meldung und ihre Einzelheiten kopieren</translation>
</message>
<message>
<source>Copy the messages that are selected, or all that are shown</source>
<translation>Die gewählten Meldungen kopieren, oder alle gezeigten</translation>
</message>
<message>
<source>Copy the whole text</source>
<translation>Den ganzen Text kopieren</translation>
</message>
<message>
<source>Copy versions, device, memory and platform; nothing of your models</source>
<translation>Versionen, Gerät, Speicher und Plattform kopieren; nichts von Ihren Modellen</translation>
</message>
<message>
<source>Cosine</source>
<translation>Kosinus</translation>
</message>
<message>
<source>Cosine of ACE's estimate with the covariance of the expert's own inputs, both without what they share with the identity; 0 where there is no relation.</source>
<translation>Kosinus der Schätzung von ACE mit der Kovarianz der eigenen Eingaben des Experten, beide ohne das, was sie mit der Einheitsmatrix gemeinsam haben; 0, wo kein Zusammenhang besteht.</translation>
</message>
<message>
<source>Cosine of both covariances, with what they share with the identity.</source>
<translation>Kosinus beider Kovarianzen, mit dem, was sie mit der Einheitsmatrix gemeinsam haben.</translation>
</message>
<message>
<source>Cosine of the experts' task vectors in this layer; 1: the same direction, 0: nothing in common, −1: opposite</source>
<translation>Kosinus der Aufgabenvektoren der Experten in dieser Schicht; 1: dieselbe Richtung, 0: nichts gemeinsam, −1: entgegengesetzt</translation>
</message>
<message>
<source>Cosine of the experts' task vectors over every layer that two of them have</source>
<translation>Kosinus der Aufgabenvektoren der Experten über jede Schicht, die zwei von ihnen haben</translation>
</message>
<message>
<source>Cosine of the two changes W₁ − W₀, W₂ − W₀</source>
<translation>Kosinus der beiden Änderungen W₁ − W₀, W₂ − W₀</translation>
</message>
<message>
<source>Cosines of the experts' task vectors</source>
<translation>Kosinus der Aufgabenvektoren der Experten</translation>
</message>
<message>
<source>Covariance</source>
<translation>Kovarianz</translation>
</message>
<message>
<source>Covariances along the model</source>
<translation>Kovarianzen entlang des Modells</translation>
</message>
<message>
<source>Curves</source>
<translation>Kurven</translation>
</message>
<message>
<source>Dark</source>
<translation>Dunkel</translation>
</message>
<message>
<source>Data</source>
<translation>Daten</translation>
</message>
<message>
<source>Data (*.csv *.tsv *.json *.jsonl *.ndjson *.parquet *.txt *.npz);;All files (*)</source>
<translation>Daten (*.csv *.tsv *.json *.jsonl *.ndjson *.parquet *.txt *.npz);;Alle Dateien (*)</translation>
</message>
<message>
<source>Data that the models are tried on, and how they are read</source>
<translation>Daten, an denen die Modelle erprobt werden, und wie sie gelesen werden</translation>
</message>
<message>
<source>Data: a folder of pictures by class, or a saved dataset</source>
<translation>Daten: ein Ordner mit Bildern nach Klassen oder ein gespeicherter Datensatz</translation>
</message>
<message>
<source>Default</source>
<translation>Standard</translation>
</message>
<message>
<source>Default {label}</source>
<translation>Standard: {label}</translation>
</message>
<message>
<source>Default {value}.</source>
<translation>Standard {value}.</translation>
</message>
<message>
<source>Default: {name}</source>
<translation>Standard: {name}</translation>
</message>
<message numerus="yes">
<source>Delete these %n runs?</source>
<translation><numerusform>Diesen Lauf löschen?</numerusform><numerusform>Diese %n Läufe löschen?</numerusform></translation>
</message>
<message>
<source>Density</source>
<translation>Dichte</translation>
</message>
<message>
<source>Detail</source>
<translation>Ausführlich</translation>
</message>
<message>
<source>Details</source>
<translation>Einzelheiten</translation>
</message>
<message>
<source>Details of the message</source>
<translation>Einzelheiten der Meldung</translation>
</message>
<message>
<source>Details of {title}, {subject}</source>
<translation>Einzelheiten zu {title}, {subject}</translation>
</message>
<message>
<source>Device</source>
<translation>Gerät</translation>
</message>
<message>
<source>Device, threads, folders, looks, messages</source>
<translation>Gerät, Threads, Ordner, Aussehen, Meldungen</translation>
</message>
<message>
<source>Device: {device}</source>
<translation>Gerät: {device}</translation>
</message>
<message>
<source>Difference of two merges by layer</source>
<translation>Unterschied zweier Merges nach Schichten</translation>
</message>
<message>
<source>Directions before and after refinement</source>
<translation>Richtungen vor und nach der Verfeinerung</translation>
</message>
<message>
<source>Discard</source>
<translation>Verwerfen</translation>
</message>
<message>
<source>Dismiss this message</source>
<translation>Diese Meldung schließen</translation>
</message>
<message>
<source>Distance</source>
<translation>Abstand</translation>
</message>
<message>
<source>Distribution of the changes in the layer</source>
<translation>Verteilung der Änderungen</translation>
</message>
<message>
<source>Done</source>
<translation>Fertig</translation>
</message>
<message>
<source>Draw pictures in the light colours, for paper</source>
<translation>Bilder in den hellen Farben zeichnen, für Papier</translation>
</message>
<message>
<source>Drop a picture here.</source>
<translation>Hier ein Bild ablegen.</translation>
</message>
<message>
<source>Drop folders, models or a recipe
anywhere in this window</source>
<translation>Ordner, Modelle oder ein Rezept
irgendwo in diesem Fenster ablegen</translation>
</message>
<message>
<source>Drop models fine-tuned from the base here.</source>
<translation>Legen Sie hier Modelle ab, die aus der Basis feinabgestimmt wurden.</translation>
</message>
<message>
<source>Drop or choose a picture first.</source>
<translation>Legen Sie zuerst ein Bild ab, oder wählen Sie eines.</translation>
</message>
<message>
<source>Each expert runs once over its calibration inputs; then every layer is compared. What is measured is kept, and you can stop and go on.</source>
<translation>Jeder Experte läuft einmal über seine Kalibrierungsdaten; dann wird jede Schicht verglichen. Was gemessen ist, bleibt erhalten, und Sie können anhalten und weitermachen.</translation>
</message>
<message>
<source>Each loads by itself, and is as large as the merged model</source>
<translation>Jedes lässt sich allein laden und ist so groß wie das zusammengeführte Modell</translation>
</message>
<message>
<source>Each task's own expert</source>
<translation>Der eigene Experte jeder Aufgabe</translation>
</message>
<message>
<source>Edit…</source>
<translation>Ändern…</translation>
</message>
<message>
<source>Eigenvalues</source>
<translation>Eigenwerte</translation>
</message>
<message>
<source>Eigenvalues of both covariances</source>
<translation>Eigenwerte beider Kovarianzen</translation>
</message>
<message>
<source>Embeddings and vocabulary heads have a row for each token. Row by row needs vocabularies of one size. Matched by token, each row is combined with the experts' rows of the same token, wherever they are; an expert without the token counts as unchanged. Tokens that the base lacks and all experts have are added, with the mean of their rows; in the union of all tokens, so are those that only some experts have. Or the base's rows are kept.</source>
<translation>Einbettungen und Vokabularköpfe haben eine Zeile je Token. Zeile für Zeile braucht Vokabulare gleicher Größe. Nach Token zugeordnet wird jede Zeile mit den Zeilen der Experten für dasselbe Token kombiniert, wo immer sie stehen; ein Experte ohne das Token zählt als unverändert. Token, die der Basis fehlen und die alle Experten haben, kommen mit dem Mittel ihrer Zeilen hinzu; bei der Vereinigung aller Token auch die, die nur manche Experten haben. Oder die Zeilen der Basis bleiben.</translation>
</message>
<message>
<source>End the tour</source>
<translation>Einführung beenden</translation>
</message>
<message>
<source>Energies</source>
<translation>Energien</translation>
</message>
<message>
<source>Energies along the model</source>
<translation>Energien entlang des Modells</translation>
</message>
<message>
<source>Energies of the selected layer</source>
<translation>Energien der gewählten Schicht</translation>
</message>
<message>
<source>Energies over the layers shown: {energies}</source>
<translation>Energien über die gezeigten Schichten: {energies}</translation>
</message>
<message>
<source>Energy</source>
<translation>Energie</translation>
</message>
<message>
<source>Energy of each expert in the layer</source>
<translation>Energie jedes Experten in der Schicht</translation>
</message>
<message>
<source>Engine</source>
<translation>Engine</translation>
</message>
<message>
<source>Entries</source>
<translation>Einträge</translation>
</message>
<message>
<source>Error</source>
<translation>Fehler</translation>
</message>
<message>
<source>Estimates agree more with own inputs in {count} of {all} layers</source>
<translation>Schätzungen stimmen in {count} von {all} Schichten eher mit den eigenen Eingaben überein</translation>
</message>
<message>
<source>Estimates find more than chance in {count} of {all} layers</source>
<translation>Schätzungen finden in {count} von {all} Schichten mehr als der Zufall</translation>
</message>
<message>
<source>Evaluate</source>
<translation>Bewerten</translation>
</message>
<message>
<source>Evaluate tries base, experts and merge on the tasks of the sample, which were held out.</source>
<translation>„Bewerten“ erprobt Basis, Experten und Merge an den zurückgehaltenen Aufgaben des Beispiels.</translation>
</message>
<message>
<source>Every key of the window</source>
<translation>Alle Tasten des Fensters</translation>
</message>
<message>
<source>Every matrix of the model is a row. γ says how unequally the experts moved it. Choose a row.</source>
<translation>Jede Matrix des Modells ist eine Zeile. γ sagt, wie ungleich die Experten sie bewegt haben. Wählen Sie eine Zeile.</translation>
</message>
<message>
<source>Every tensor of the model</source>
<translation>Jeder Tensor des Modells</translation>
</message>
<message>
<source>Exam&amp;ples</source>
<translation>Beis&amp;piele</translation>
</message>
<message>
<source>Example</source>
<translation>Beispiel</translation>
</message>
<message>
<source>Examples</source>
<translation>Beispiele</translation>
</message>
<message>
<source>Examples at most, drawn by chance</source>
<translation>Höchstzahl der Beispiele, zufällig gezogen</translation>
</message>
<message>
<source>Examples of each task at most</source>
<translation>Höchstzahl der Beispiele je Aufgabe</translation>
</message>
<message>
<source>Examples of every task</source>
<translation>Beispiele jeder Aufgabe</translation>
</message>
<message>
<source>Examples that the expert has right and the merge wrong; of a loss, those where it grew.</source>
<translation>Beispiele, bei denen der Experte richtig liegt und der Merge falsch; bei einem Verlust die, wo er wuchs.</translation>
</message>
<message>
<source>Examples that the merge has right and the expert wrong; of a loss, those where it fell.</source>
<translation>Beispiele, bei denen der Merge richtig liegt und der Experte falsch; bei einem Verlust die, wo er sank.</translation>
</message>
<message>
<source>Examples that the scores are of.</source>
<translation>Beispiele, auf denen die Bewertungen beruhen.</translation>
</message>
<message>
<source>Expert</source>
<translation>Experte</translation>
</message>
<message>
<source>Expert whose eigenvalues are shown</source>
<translation>Experte, dessen Eigenwerte gezeigt werden</translation>
</message>
<message>
<source>Experts</source>
<translation>Experten</translation>
</message>
<message>
<source>Experts: {listed}</source>
<translation>Experten: {listed}</translation>
</message>
<message>
<source>Export</source>
<translation>Exportieren</translation>
</message>
<message>
<source>Export folder</source>
<translation>Exportordner</translation>
</message>
<message>
<source>Export progress</source>
<translation>Fortschritt des Exports</translation>
</message>
<message>
<source>Export the merged model</source>
<translation>Das zusammengeführte Modell exportieren</translation>
</message>
<message>
<source>Export writes the merged model as a folder that its library loads.</source>
<translation>„Exportieren“ schreibt das zusammengeführte Modell als Ordner, den seine Bibliothek lädt.</translation>
</message>
<message>
<source>Export writes the merged model as a folder that its library loads. Nothing more is needed for your own models: open a base, add experts, merge.</source>
<translation>„Exportieren“ schreibt das zusammengeführte Modell als Ordner, den seine Bibliothek lädt. Mehr braucht es für eigene Modelle nicht: eine Basis öffnen, Experten hinzufügen, zusammenführen.</translation>
</message>
<message>
<source>Exported</source>
<translation>Exportiert</translation>
</message>
<message>
<source>Exporting …</source>
<translation>Export läuft …</translation>
</message>
<message>
<source>Export…</source>
<translation>Exportieren…</translation>
</message>
<message>
<source>F&amp;older…</source>
<translation>&amp;Ordner…</translation>
</message>
<message>
<source>F1: {term} in the glossary.</source>
<translation>F1: {term} im Glossar.</translation>
</message>
<message>
<source>Figure</source>
<translation>Größe</translation>
</message>
<message>
<source>Figures</source>
<translation>Zahlen</translation>
</message>
<message>
<source>Figures of the covariances</source>
<translation>Kennzahlen der Kovarianzen</translation>
</message>
<message>
<source>Figures of the distributions</source>
<translation>Zahlen zu den Verteilungen</translation>
</message>
<message>
<source>Figures of the layer under the recipe and under what is tried</source>
<translation>Zahlen der Schicht unter dem Rezept und unter dem Versuch</translation>
</message>
<message>
<source>Figures of the merge</source>
<translation>Zahlen des Merges</translation>
</message>
<message>
<source>Figures of the merge, task by task</source>
<translation>Zahlen des Merges, Aufgabe für Aufgabe</translation>
</message>
<message>
<source>Figures of the spectra</source>
<translation>Zahlen zu den Spektren</translation>
</message>
<message>
<source>Files and messages</source>
<translation>Dateien und Meldungen</translation>
</message>
<message>
<source>Filter by name</source>
<translation>Nach Namen filtern</translation>
</message>
<message>
<source>Filter layers by name</source>
<translation>Schichten nach Namen filtern</translation>
</message>
<message>
<source>Filter layers by role</source>
<translation>Schichten nach Rolle filtern</translation>
</message>
<message>
<source>Filter models by name</source>
<translation>Modelle nach Namen filtern</translation>
</message>
<message>
<source>Filter the layers by name</source>
<translation>Die Schichten nach Namen filtern</translation>
</message>
<message>
<source>Find a method by name, word or author</source>
<translation>Eine Methode nach Name, Wort oder Autor finden</translation>
</message>
<message>
<source>Find and do anything by its name</source>
<translation>Alles nach seinem Namen finden und ausführen</translation>
</message>
<message>
<source>Find in the log</source>
<translation>Im Protokoll suchen</translation>
</message>
<message>
<source>Find what in it fits together</source>
<translation>Finden, was darin zusammenpasst</translation>
</message>
<message>
<source>Fine</source>
<translation>In Ordnung</translation>
</message>
<message>
<source>Finished merges are kept in any case.</source>
<translation>Fertige Merges bleiben in jedem Fall.</translation>
</message>
<message>
<source>Finished merges side by side, and methods against each other</source>
<translation>Fertige Merges nebeneinander, und Methoden im Vergleich</translation>
</message>
<message>
<source>First examples</source>
<translation>Erste Beispiele</translation>
</message>
<message>
<source>First merge</source>
<translation>Erster Merge</translation>
</message>
<message>
<source>First model of the test</source>
<translation>Erstes Modell des Tests</translation>
</message>
<message>
<source>Folder</source>
<translation>Ordner</translation>
</message>
<message>
<source>Folder for the merged model</source>
<translation>Ordner für das zusammengeführte Modell</translation>
</message>
<message>
<source>For which tensors</source>
<translation>Für welche Tensoren</translation>
</message>
<message>
<source>Formula and paper</source>
<translation>Formel und Artikel</translation>
</message>
<message>
<source>Formula: {formula}</source>
<translation>Formel: {formula}</translation>
</message>
<message>
<source>Frobenius norm</source>
<translation>Frobenius-Norm</translation>
</message>
<message>
<source>Frobenius norm of the expert's change</source>
<translation>Frobenius-Norm der Änderung des Experten</translation>
</message>
<message>
<source>Frobenius norm of the merged change</source>
<translation>Frobenius-Norm der Änderung durch den Merge</translation>
</message>
<message>
<source>Frobenius norm ‖W₁ − W₀‖</source>
<translation>Frobenius-Norm ‖W₁ − W₀‖</translation>
</message>
<message>
<source>Frobenius norm ‖W₁ − W₂‖</source>
<translation>Frobenius-Norm ‖W₁ − W₂‖</translation>
</message>
<message>
<source>Frobenius norm ‖W₂ − W₀‖</source>
<translation>Frobenius-Norm ‖W₂ − W₀‖</translation>
</message>
<message>
<source>From</source>
<translation>Von</translation>
</message>
<message>
<source>From the &amp;Hugging Face cache…</source>
<translation>Aus dem &amp;Hugging-Face-Cache…</translation>
</message>
<message>
<source>From the files' headers and configs, and the tensors once they are compared.</source>
<translation>Aus Dateiköpfen und Konfigurationen, und aus den Tensoren, sobald sie verglichen sind.</translation>
</message>
<message>
<source>From the sample to a merged model, step by step in the window</source>
<translation>Vom Beispiel zu einem zusammengeführten Modell, Schritt für Schritt im Fenster</translation>
</message>
<message>
<source>From {low} to {high}.</source>
<translation>Von {low} bis {high}.</translation>
</message>
<message>
<source>Fused</source>
<translation>Gebündelt</translation>
</message>
<message>
<source>Gained</source>
<translation>Gewonnen</translation>
</message>
<message>
<source>Gather what helps to find a fault, as a text; nothing is sent</source>
<translation>Sammeln, was einen Fehler finden hilft, als Text; nichts wird gesendet</translation>
</message>
<message>
<source>Gaussian</source>
<translation>Gauß</translation>
</message>
<message>
<source>Give the full path of a folder.</source>
<translation>Geben Sie den vollen Pfad eines Ordners an.</translation>
</message>
<message>
<source>Give this run a name</source>
<translation>Diesem Lauf einen Namen geben</translation>
</message>
<message>
<source>Glossary</source>
<translation>Glossar</translation>
</message>
<message>
<source>Go back to what is loaded, whatever is being opened</source>
<translation>Beim Geladenen bleiben, was auch gerade geöffnet wird</translation>
</message>
<message>
<source>Heads</source>
<translation>Köpfe</translation>
</message>
<message>
<source>Health</source>
<translation>Befund</translation>
</message>
<message>
<source>Health ({count})</source>
<translation>Befund ({count})</translation>
</message>
<message>
<source>Help</source>
<translation>Hilfe</translation>
</message>
<message>
<source>Help page</source>
<translation>Hilfeseite</translation>
</message>
<message>
<source>Help pages</source>
<translation>Hilfeseiten</translation>
</message>
<message>
<source>Heterogeneity</source>
<translation>Heterogenität</translation>
</message>
<message>
<source>Heterogeneity (ACE, Eq. 7)</source>
<translation>Heterogenität (ACE, Gl. 7)</translation>
</message>
<message>
<source>Heterogeneity along the model</source>
<translation>Heterogenität entlang des Modells</translation>
</message>
<message>
<source>Heterogeneity by block and role</source>
<translation>Heterogenität nach Block und Rolle</translation>
</message>
<message>
<source>Heterogeneity by role</source>
<translation>Heterogenität nach Rolle</translation>
</message>
<message>
<source>Heterogeneity γ</source>
<translation>Heterogenität γ</translation>
</message>
<message>
<source>Heterogeneity: how much the experts' energies differ in this layer (variance of the logarithms by their squared mean). With a question mark: γ is unreliable here, because that mean is near zero.</source>
<translation>Heterogenität: wie sehr sich die Energien der Experten in dieser Schicht unterscheiden (Varianz der Logarithmen durch das Quadrat ihres Mittels). Mit Fragezeichen: γ ist hier unzuverlässig, weil dieses Mittel nahe null ist.</translation>
</message>
<message>
<source>Heterogeneity: variance of the log energies by their squared mean</source>
<translation>Heterogenität: Varianz der Log-Energien durch das Quadrat ihres Mittels</translation>
</message>
<message>
<source>Heterogeneous where γ exceeds τ: there the solution is refined</source>
<translation>Heterogen, wo γ über τ liegt: Dort wird die Lösung verfeinert</translation>
</message>
<message>
<source>Heterogeneous where γ is above the threshold τ: there ACE refines its solution. Near γ's pole: γ is above τ only because of it, not because the experts disagree.</source>
<translation>Heterogen, wo γ über der Schwelle τ liegt: Dort verfeinert ACE seine Lösung. Nahe dem Pol von γ: γ liegt nur seinetwegen über τ, nicht weil die Experten sich unterscheiden.</translation>
</message>
<message>
<source>How a method that learns from data goes on: loss by task, coefficients by expert</source>
<translation>Wie eine Methode vorankommt, die aus Daten lernt: Verlust nach Aufgaben, Koeffizienten nach Experten</translation>
</message>
<message>
<source>How answers are scored</source>
<translation>Wie Antworten bewertet werden</translation>
</message>
<message>
<source>How far each expert moved every layer from the base</source>
<translation>Wie weit jeder Experte jede Schicht von der Basis bewegt hat</translation>
</message>
<message>
<source>How far every expert moved this layer from the base: ‖ΔW‖²</source>
<translation>Wie weit jeder Experte diese Schicht von der Basis bewegt hat: ‖ΔW‖²</translation>
</message>
<message>
<source>How good base, experts and merges are at the tasks</source>
<translation>Wie gut Basis, Experten und Merges in den Aufgaben sind</translation>
</message>
<message>
<source>How good every model is at the tasks: the base, the experts at their own task, averaging, and ACE, task by task.</source>
<translation>Wie gut jedes Modell in den Aufgaben ist: die Basis, die Experten in ihrer eigenen, die Mittelung und ACE, Aufgabe für Aufgabe.</translation>
</message>
<message>
<source>How good the models are at tasks of your own</source>
<translation>Wie gut die Modelle in eigenen Aufgaben sind</translation>
</message>
<message>
<source>How many things are out of the ordinary; hover over a row to read what one can do.</source>
<translation>Wie viel ungewöhnlich ist; zeigen Sie auf eine Zeile, um zu lesen, was sich tun lässt.</translation>
</message>
<message>
<source>How much of the solve is the ridge's</source>
<translation>Wie viel von der Lösung auf den Ridge entfällt</translation>
</message>
<message>
<source>How much the expert counts; its task vector is multiplied by this. Double-click to change it.</source>
<translation>Wie viel der Experte zählt; sein Aufgabenvektor wird damit multipliziert. Zum Ändern doppelklicken.</translation>
</message>
<message>
<source>How much the experts' energies differ in this layer</source>
<translation>Wie sehr sich die Energien der Experten in dieser Schicht unterscheiden</translation>
</message>
<message>
<source>How steeply both fall, and what the estimate gives to the inputs' directions</source>
<translation>Wie steil beide fallen, und was die Schätzung den Richtungen der Eingaben gibt</translation>
</message>
<message>
<source>How the entries of the experts' changes are distributed</source>
<translation>Wie die Einträge der Änderungen der Experten verteilt sind</translation>
</message>
<message>
<source>How to begin, recipes, the method, limits, or the term of what has the focus</source>
<translation>Der Anfang, Rezepte, die Methode, Grenzen, oder der Begriff zu dem, was den Fokus hat</translation>
</message>
<message>
<source>How to load the model in Python</source>
<translation>So wird das Modell in Python geladen</translation>
</message>
<message>
<source>How well ACE's covariance of this layer shows that of the experts' inputs</source>
<translation>Wie gut die Kovarianz von ACE in dieser Schicht die der Eingaben der Experten zeigt</translation>
</message>
<message>
<source>How well ACE's covariances show the inputs that were measured, layer by layer</source>
<translation>Wie gut die Kovarianzen von ACE die gemessenen Eingaben zeigen, Schicht für Schicht</translation>
</message>
<message>
<source>How γ is distributed in each kind of layer</source>
<translation>Wie γ in jeder Art von Schicht verteilt ist</translation>
</message>
<message numerus="yes">
<source>In %n layers, the published variant moves far more than the experts did, or refines against them. The automatic variant does neither.</source>
<translation><numerusform>In %n Schicht bewegt die veröffentlichte Variante weit mehr als die Experten, oder sie verfeinert gegen sie. Die automatische Variante tut beides nicht.</numerusform><numerusform>In %n Schichten bewegt die veröffentlichte Variante weit mehr als die Experten, oder sie verfeinert gegen sie. Die automatische Variante tut beides nicht.</numerusform></translation>
</message>
<message>
<source>In place of what is loaded</source>
<translation>Anstelle dessen, was geladen ist</translation>
</message>
<message>
<source>Info</source>
<translation>Info</translation>
</message>
<message>
<source>Inputs</source>
<translation>Eingaben</translation>
</message>
<message>
<source>Inputs for methods that learn or measure something; never those that are scored. Labels are not needed, except for the few methods that say so.</source>
<translation>Eingaben für Methoden, die etwas lernen oder messen; nie die, die bewertet werden. Labels braucht es nicht, außer für die wenigen Methoden, die es sagen.</translation>
</message>
<message>
<source>Inputs, folded</source>
<translation>Eingaben, eingeklappt</translation>
</message>
<message>
<source>Inspector</source>
<translation>Inspektor</translation>
</message>
<message>
<source>Is the difference chance?</source>
<translation>Ist der Unterschied Zufall?</translation>
</message>
<message>
<source>Is the merge any good? Turn to the scores.</source>
<translation>Taugt der Merge etwas? Wechseln Sie zu den Bewertungen.</translation>
</message>
<message>
<source>Keep runs</source>
<translation>Läufe behalten</translation>
</message>
<message>
<source>Keep the base's tensor</source>
<translation>Tensor der Basis behalten</translation>
</message>
<message>
<source>Kept</source>
<translation>Erhalten</translation>
</message>
<message>
<source>Kept merges</source>
<translation>Behaltene Merges</translation>
</message>
<message>
<source>Kept runs use {size} on this disk</source>
<translation>Behaltene Läufe belegen {size} auf diesem Datenträger</translation>
</message>
<message>
<source>Kept: merged as a share of the expert. Lost: the expert is right and the merge is wrong; gained: the other way round.</source>
<translation>Erhalten: der Merge als Anteil am Experten. Verloren: Der Experte liegt richtig und der Merge falsch; gewonnen: umgekehrt.</translation>
</message>
<message>
<source>Key</source>
<translation>Taste</translation>
</message>
<message>
<source>Keyboard shortcuts</source>
<translation>Tastenkürzel</translation>
</message>
<message>
<source>Kind of message</source>
<translation>Art der Meldung</translation>
</message>
<message>
<source>Kind of task</source>
<translation>Art der Aufgabe</translation>
</message>
<message>
<source>Labels, in the order of the head</source>
<translation>Labels, in der Reihenfolge des Kopfes</translation>
</message>
<message>
<source>Language</source>
<translation>Sprache</translation>
</message>
<message>
<source>Larger models are split into several files with an index</source>
<translation>Größere Modelle werden auf mehrere Dateien mit einem Index verteilt</translation>
</message>
<message>
<source>Largest file</source>
<translation>Größte Datei</translation>
</message>
<message>
<source>Layer</source>
<translation>Schicht</translation>
</message>
<message>
<source>Layers</source>
<translation>Schichten</translation>
</message>
<message>
<source>Layers shows what the merge did to each matrix; Compare puts methods beside each other; Report writes it down.</source>
<translation>„Schichten“ zeigt, was der Merge mit jeder Matrix gemacht hat; „Vergleich“ stellt Methoden nebeneinander; „Bericht“ schreibt es auf.</translation>
</message>
<message>
<source>Layers with the worst findings</source>
<translation>Schichten mit den schlimmsten Befunden</translation>
</message>
<message>
<source>Leading directions</source>
<translation>Führende Richtungen</translation>
</message>
<message>
<source>Learning</source>
<translation>Lernen</translation>
</message>
<message>
<source>Learning, step by step</source>
<translation>Lernen, Schritt für Schritt</translation>
</message>
<message>
<source>Least level</source>
<translation>Mindeststufe</translation>
</message>
<message>
<source>Leave the expert out of it</source>
<translation>Experten dort weglassen</translation>
</message>
<message>
<source>Legend</source>
<translation>Legende</translation>
</message>
<message>
<source>Let some tensors be merged otherwise</source>
<translation>Manche Tensoren anders zusammenführen</translation>
</message>
<message>
<source>Letters</source>
<translation>Schrift</translation>
</message>
<message>
<source>Level</source>
<translation>Stufe</translation>
</message>
<message>
<source>Light</source>
<translation>Hell</translation>
</message>
<message>
<source>Limits how far a merge moves each matrix, whatever the method. The merged change may be as long as one expert's on average; with T experts √T times that, as long as it stays within δ of the base's norm. A longer one is scaled down, and the layer's notes say so.</source>
<translation>Begrenzt, wie weit ein Merge jede Matrix bewegt, welche Methode auch immer. Die Änderung darf so lang sein wie die eines Experten im Mittel; bei T Experten das √T-fache, solange sie innerhalb von δ der Norm der Basis bleibt. Eine längere wird verkleinert, und die Hinweise zur Schicht sagen es.</translation>
</message>
<message>
<source>Locate {path}</source>
<translation>{path} suchen</translation>
</message>
<message>
<source>Locate…</source>
<translation>Suchen …</translation>
</message>
<message>
<source>Log</source>
<translation>Protokoll</translation>
</message>
<message>
<source>Logarithmic scale</source>
<translation>Logarithmische Skala</translation>
</message>
<message>
<source>Look</source>
<translation>Ansehen</translation>
</message>
<message>
<source>Look at the routes</source>
<translation>Routing ansehen</translation>
</message>
<message>
<source>Look for models in a folder and those below it</source>
<translation>In einem Ordner und denen darunter nach Modellen suchen</translation>
</message>
<message>
<source>Look for values of parameters by trying them on half of the data</source>
<translation>Werte von Parametern suchen, indem sie an der Hälfte der Daten erprobt werden</translation>
</message>
<message>
<source>Looking through the cache …</source>
<translation>Der Cache wird durchgesehen …</translation>
</message>
<message>
<source>Looking …</source>
<translation>Wird durchgesehen …</translation>
</message>
<message>
<source>Loss</source>
<translation>Verlust</translation>
</message>
<message>
<source>Loss of every task</source>
<translation>Verlust jeder Aufgabe</translation>
</message>
<message>
<source>Lost</source>
<translation>Verloren</translation>
</message>
<message>
<source>Lost is where the loss grew most.</source>
<translation>Verloren ist, wo der Verlust am meisten wuchs.</translation>
</message>
<message>
<source>Ma&amp;ximise panel</source>
<translation>Bereich ma&amp;ximieren</translation>
</message>
<message>
<source>Made</source>
<translation>Entstanden</translation>
</message>
<message>
<source>Make what is tried the override of {rule}</source>
<translation>Den Versuch zur Ausnahme {rule} machen</translation>
</message>
<message>
<source>Make what is tried the override of {rule}, for all of its {count} tensors</source>
<translation>Den Versuch zur Ausnahme {rule} machen, für alle ihre {count} Tensoren</translation>
</message>
<message>
<source>Make what is tried the recipe of the whole merge</source>
<translation>Den Versuch zum Rezept des ganzen Merges machen</translation>
</message>
<message>
<source>Map</source>
<translation>Karte</translation>
</message>
<message>
<source>Maximise this panel</source>
<translation>Diesen Bereich maximieren</translation>
</message>
<message>
<source>Me&amp;mory for merging</source>
<translation>Spei&amp;cher für Merges</translation>
</message>
<message>
<source>Mean</source>
<translation>Mittel</translation>
</message>
<message>
<source>Mean accuracy on 2000 held-out images</source>
<translation>Mittlere Genauigkeit auf 2000 zurückgehaltenen Bildern</translation>
</message>
<message>
<source>Mean cosine of the merged change and the experts' changes.</source>
<translation>Mittlerer Kosinus der Änderung durch den Merge mit den Änderungen der Experten.</translation>
</message>
<message>
<source>Mean distance of the merged model from the experts, each by the expert's own distance from the base: 0 is the expert, 1 as far as the base.</source>
<translation>Mittlerer Abstand des zusammengeführten Modells von den Experten, jeder durch dessen eigenen Abstand von der Basis: 0 ist der Experte, 1 so weit wie die Basis.</translation>
</message>
<message>
<source>Mean of ((x − mean) / deviation)⁴, less 3: 0 for a Gaussian; larger: a sharper peak and heavier tails.</source>
<translation>Mittel von ((x − Mittel) / Abweichung)⁴, weniger 3: 0 für Gauß; größer: eine schärfere Spitze und schwerere Ränder.</translation>
</message>
<message>
<source>Mean of the entries of ΔW.</source>
<translation>Mittel der Einträge von ΔW.</translation>
</message>
<message>
<source>Mean over the experts of ln ‖ΔW‖². Near zero it lifts γ by itself.</source>
<translation>Mittel von ln ‖ΔW‖² über die Experten. Nahe null hebt es γ von selbst.</translation>
</message>
<message>
<source>Mean over the tasks of the score by that of the task's own expert.</source>
<translation>Mittel über die Aufgaben der Bewertung durch die des eigenen Experten der Aufgabe.</translation>
</message>
<message>
<source>Mean score over the tasks.</source>
<translation>Mittlere Bewertung über die Aufgaben.</translation>
</message>
<message>
<source>Mean score: {parts}</source>
<translation>Mittlere Bewertung: {parts}</translation>
</message>
<message>
<source>Mean scores</source>
<translation>Mittlere Bewertungen</translation>
</message>
<message>
<source>Measure again</source>
<translation>Noch einmal messen</translation>
</message>
<message>
<source>Measure and compare</source>
<translation>Messen und vergleichen</translation>
</message>
<message>
<source>Memory</source>
<translation>Speicher</translation>
</message>
<message>
<source>Memory for merging</source>
<translation>Speicher für Merges</translation>
</message>
<message>
<source>Memory that a merge may use, in GB:</source>
<translation>Speicher, den ein Merge benutzen darf, in GB:</translation>
</message>
<message>
<source>Merge</source>
<translation>Merge</translation>
</message>
<message>
<source>Merge again</source>
<translation>Neu zusammenführen</translation>
</message>
<message>
<source>Merge again to resume from the last finished tensor.</source>
<translation>Führen Sie erneut zusammen, um beim letzten fertigen Tensor fortzufahren.</translation>
</message>
<message>
<source>Merge anyway</source>
<translation>Trotzdem zusammenführen</translation>
</message>
<message>
<source>Merge by ACE with the measured covariances</source>
<translation>Mit ACE und den gemessenen Kovarianzen zusammenführen</translation>
</message>
<message>
<source>Merge by each method ticked, one after another</source>
<translation>Mit jeder angehakten Methode zusammenführen, eine nach der anderen</translation>
</message>
<message>
<source>Merge by several methods to see them side by side.</source>
<translation>Führen Sie mit mehreren Methoden zusammen, um sie nebeneinander zu sehen.</translation>
</message>
<message>
<source>Merge by several methods, or with several values, and compare them</source>
<translation>Mit mehreren Methoden oder Werten zusammenführen und vergleichen</translation>
</message>
<message>
<source>Merge by several methods, or with several values, and compare them in a table</source>
<translation>Mit mehreren Methoden oder Werten zusammenführen und in einer Tabelle vergleichen</translation>
</message>
<message>
<source>Merge cancelled. What is finished is kept: Merge continues from there.</source>
<translation>Merge abgebrochen. Was fertig ist, bleibt erhalten: „Zusammenführen“ fährt dort fort.</translation>
</message>
<message>
<source>Merge every layer by the automatic variant</source>
<translation>Jede Schicht mit der automatischen Variante zusammenführen</translation>
</message>
<message>
<source>Merge fine-tuned models into one, and see layer by layer what came of it.</source>
<translation>Feinabgestimmte Modelle zu einem zusammenführen und Schicht für Schicht sehen, was daraus wurde.</translation>
</message>
<message>
<source>Merge first</source>
<translation>Führen Sie zuerst zusammen</translation>
</message>
<message>
<source>Merge first to try the merge, too</source>
<translation>Führen Sie zuerst zusammen, um auch den Merge zu erproben</translation>
</message>
<message>
<source>Merge first.</source>
<translation>Führen Sie zuerst zusammen.</translation>
</message>
<message>
<source>Merge method</source>
<translation>Methode</translation>
</message>
<message>
<source>Merge that is looked at</source>
<translation>Betrachteter Merge</translation>
</message>
<message>
<source>Merge that is tried</source>
<translation>Erprobter Merge</translation>
</message>
<message>
<source>Merge the experts into the base</source>
<translation>Die Experten in die Basis zusammenführen</translation>
</message>
<message>
<source>Merge the heads of experts of one task</source>
<translation>Die Köpfe von Experten mit derselben Aufgabe zusammenführen</translation>
</message>
<message>
<source>Merge whose routes are shown</source>
<translation>Merge, dessen Routing gezeigt wird</translation>
</message>
<message>
<source>Merge, and evaluate again</source>
<translation>Zusammenführen und erneut bewerten</translation>
</message>
<message>
<source>Merge. It takes a few seconds and changes no file.</source>
<translation>Führen Sie zusammen. Es dauert wenige Sekunden und ändert keine Datei.</translation>
</message>
<message>
<source>Merged</source>
<translation>Merge</translation>
</message>
<message>
<source>Merged by expert (of perplexity, expert by merged): what the merge keeps of the expert.</source>
<translation>Merge durch Experte (bei Perplexität Experte durch Merge): was der Merge vom Experten erhält.</translation>
</message>
<message>
<source>Merged in {time}</source>
<translation>Zusammengeführt in {time}</translation>
</message>
<message>
<source>Merged with the present parameters.</source>
<translation>Mit den jetzigen Parametern zusammengeführt.</translation>
</message>
<message>
<source>Merged {count}</source>
<translation>Im Merge {count}</translation>
</message>
<message>
<source>Merges by SMILE, Twin-Merging, FREE-Merging and WEMoE send each example to experts. Here the recipe's tasks are answered, and every row says in what shares the experts took part.</source>
<translation>Merges mit SMILE, Twin-Merging, FREE-Merging und WEMoE schicken jedes Beispiel zu Experten. Hier werden die Aufgaben des Rezepts beantwortet, und jede Zeile sagt, mit welchen Anteilen die Experten teilnahmen.</translation>
</message>
<message>
<source>Merges by one figure</source>
<translation>Merges nach einer Größe</translation>
</message>
<message>
<source>Merges compared</source>
<translation>Verglichene Merges</translation>
</message>
<message>
<source>Merges fine-tuned models in closed form, without data, and shows layer by layer what the merge does.</source>
<translation>Führt feinabgestimmte Modelle in geschlossener Form zusammen, ohne Daten, und zeigt Schicht für Schicht, was der Merge bewirkt.</translation>
</message>
<message>
<source>Merges to try</source>
<translation>Merges zum Erproben</translation>
</message>
<message>
<source>Merges wait there until they are exported; they are as large as the model.</source>
<translation>Merges warten dort, bis sie exportiert werden; sie sind so groß wie das Modell.</translation>
</message>
<message>
<source>Merges with other values, each scored on one half of every task's data. What is reported is measured on the other half, with which nothing is chosen.</source>
<translation>Merges mit anderen Werten, jeder an einer Hälfte der Daten jeder Aufgabe bewertet. Berichtet wird, was an der anderen Hälfte gemessen ist, mit der nichts gewählt wird.</translation>
</message>
<message>
<source>Merging {place} of {of}: {title}</source>
<translation>Merge {place} von {of}: {title}</translation>
</message>
<message>
<source>Merging …</source>
<translation>Merge läuft …</translation>
</message>
<message>
<source>Message</source>
<translation>Meldung</translation>
</message>
<message>
<source>Messages</source>
<translation>Meldungen</translation>
</message>
<message>
<source>Method</source>
<translation>Methode</translation>
</message>
<message>
<source>Methods</source>
<translation>Methoden</translation>
</message>
<message>
<source>Methods to compare</source>
<translation>Zu vergleichende Methoden</translation>
</message>
<message>
<source>Model</source>
<translation>Modell</translation>
</message>
<message>
<source>Model weights (*.safetensors)</source>
<translation>Modellgewichte (*.safetensors)</translation>
</message>
<message>
<source>Models</source>
<translation>Modelle</translation>
</message>
<message>
<source>Models and method</source>
<translation>Modelle und Methode</translation>
</message>
<message>
<source>Models are being tried.</source>
<translation>Modelle werden gerade erprobt.</translation>
</message>
<message>
<source>Models fine-tuned from the base</source>
<translation>Aus der Basis feinabgestimmte Modelle</translation>
</message>
<message>
<source>Models found</source>
<translation>Gefundene Modelle</translation>
</message>
<message>
<source>Models in the Hugging Face cache</source>
<translation>Modelle im Hugging-Face-Cache</translation>
</message>
<message>
<source>Models in the cache</source>
<translation>Modelle im Cache</translation>
</message>
<message>
<source>Models in this folder</source>
<translation>Modelle in diesem Ordner</translation>
</message>
<message>
<source>More options</source>
<translation>Weitere Optionen</translation>
</message>
<message>
<source>Most: {layer}</source>
<translation>Am meisten: {layer}</translation>
</message>
<message>
<source>Move the panel with the focus to a window of its own, or back</source>
<translation>Den Bereich mit dem Fokus in ein eigenes Fenster bringen, oder zurück</translation>
</message>
<message>
<source>NaN and Inf</source>
<translation>NaN und Inf</translation>
</message>
<message>
<source>NaN, Inf</source>
<translation>NaN, Inf</translation>
</message>
<message>
<source>Name of the expert. Double-click to change it.</source>
<translation>Name des Experten. Zum Ändern doppelklicken.</translation>
</message>
<message>
<source>Name of the task</source>
<translation>Name der Aufgabe</translation>
</message>
<message>
<source>Name of the tensor in the base model's files.</source>
<translation>Name des Tensors in den Dateien des Basismodells.</translation>
</message>
<message>
<source>Name, word or author</source>
<translation>Name, Wort oder Autor</translation>
</message>
<message>
<source>Names</source>
<translation>Namen</translation>
</message>
<message>
<source>Names of tensors, with * for any text and ? for any character. Empty: all.</source>
<translation>Namen von Tensoren, mit * für beliebigen Text und ? für ein beliebiges Zeichen. Leer: alle.</translation>
</message>
<message>
<source>Near 1 the refinement turns against the experts</source>
<translation>Nahe 1 wendet sich die Verfeinerung gegen die Experten</translation>
</message>
<message>
<source>Needs about {size} of memory</source>
<translation>Braucht etwa {size} Arbeitsspeicher</translation>
</message>
<message>
<source>Needs about {size} of memory for these experts</source>
<translation>Braucht für diese Experten etwa {size} Arbeitsspeicher</translation>
</message>
<message>
<source>Neither is right</source>
<translation>Beide liegen falsch</translation>
</message>
<message>
<source>New here?</source>
<translation>Zum ersten Mal hier?</translation>
</message>
<message>
<source>Next</source>
<translation>Weiter</translation>
</message>
<message>
<source>No directions: {reason}.</source>
<translation>Keine Richtungen: {reason}.</translation>
</message>
<message>
<source>No energies are known of this layer.</source>
<translation>Von dieser Schicht sind keine Energien bekannt.</translation>
</message>
<message>
<source>No expert has this tensor.</source>
<translation>Kein Experte hat diesen Tensor.</translation>
</message>
<message>
<source>No layer here belongs to a numbered block.</source>
<translation>Keine Schicht hier gehört zu einem nummerierten Block.</translation>
</message>
<message>
<source>No merge has been tried yet</source>
<translation>Noch kein Merge wurde erprobt</translation>
</message>
<message>
<source>No merge here sends examples to experts. Merge by one of these methods: {methods}.</source>
<translation>Kein Merge hier schickt Beispiele zu Experten. Führen Sie mit einer dieser Methoden zusammen: {methods}.</translation>
</message>
<message>
<source>No merge is kept.</source>
<translation>Es gibt keinen behaltenen Merge.</translation>
</message>
<message>
<source>No method has these words.</source>
<translation>Keine Methode passt zu diesen Wörtern.</translation>
</message>
<message>
<source>No models with weights in {folder}.</source>
<translation>Keine Modelle mit Gewichten in {folder}.</translation>
</message>
<message>
<source>No overrides. Add one, or select layers in the table and open their menu.</source>
<translation>Keine Ausnahmen. Fügen Sie eine hinzu, oder wählen Sie Schichten in der Tabelle und öffnen Sie ihr Menü.</translation>
</message>
<message>
<source>No part of the merge</source>
<translation>Nicht Teil des Merges</translation>
</message>
<message>
<source>No spectrum: {reason}.</source>
<translation>Kein Spektrum: {reason}.</translation>
</message>
<message>
<source>No tensor fits this filter.</source>
<translation>Kein Tensor passt zu diesem Filter.</translation>
</message>
<message>
<source>No tensor here is merged by the method.</source>
<translation>Kein Tensor hier wird von der Methode zusammengeführt.</translation>
</message>
<message>
<source>None could be read.</source>
<translation>Keines konnte gelesen werden.</translation>
</message>
<message>
<source>Norm</source>
<translation>Norm</translation>
</message>
<message>
<source>Norm of the change and result of every merge</source>
<translation>Norm der Änderung und Ergebnis jedes Merges</translation>
</message>
<message>
<source>Norm of the change of all merged matrices together, by the mean of the experts'. Before a merge it is estimated from matrices that a few seconds suffice to merge; after it, it is exact. A change far above the cap is more than the experts learned: try the automatic variant of ACE, or a cap.</source>
<translation>Norm der Änderung aller zusammengeführten Matrizen gemeinsam, durch das Mittel der Experten. Vor einem Merge wird sie aus Matrizen geschätzt, die in wenigen Sekunden zusammengeführt sind; danach ist sie genau. Eine Änderung weit über der Obergrenze ist mehr, als die Experten gelernt haben: Versuchen Sie die automatische Variante von ACE oder eine Obergrenze.</translation>
</message>
<message>
<source>Norm of the merged change of all tensors, by the experts' mean norm.</source>
<translation>Norm der Änderung aller Tensoren, durch die mittlere Norm der Experten.</translation>
</message>
<message>
<source>Norm of the refinement by that of W_pre</source>
<translation>Norm der Verfeinerung durch die von W_pre</translation>
</message>
<message>
<source>Not available now.</source>
<translation>Jetzt nicht verfügbar.</translation>
</message>
<message>
<source>Not merged yet.</source>
<translation>Noch nicht zusammengeführt.</translation>
</message>
<message>
<source>Note</source>
<translation>Hinweis</translation>
</message>
<message>
<source>Nothing here stops a merge. Merge asks once whether to go on.</source>
<translation>Nichts hier hält einen Merge auf. „Zusammenführen“ fragt einmal, ob es weitergehen soll.</translation>
</message>
<message>
<source>Nothing is being opened.</source>
<translation>Es wird nichts geöffnet.</translation>
</message>
<message>
<source>Nothing is called so; try another word.</source>
<translation>Nichts gefunden; versuchen Sie ein anderes Wort.</translation>
</message>
<message>
<source>Nothing is known of the layers yet.</source>
<translation>Von den Schichten ist noch nichts bekannt.</translation>
</message>
<message>
<source>Nothing is running.</source>
<translation>Es läuft nichts.</translation>
</message>
<message>
<source>Nothing was open before.</source>
<translation>Vorher war nichts offen.</translation>
</message>
<message>
<source>Nothing went through this layer with the calibration inputs of one of the experts, or none changes it.</source>
<translation>Mit den Kalibrierungsdaten eines der Experten ging nichts durch diese Schicht, oder keiner ändert sie.</translation>
</message>
<message>
<source>Number format</source>
<translation>Zahlenformat</translation>
</message>
<message>
<source>Number format of the merged tensors; rounded once, on writing.</source>
<translation>Zahlenformat der zusammengeführten Tensoren; einmal gerundet, beim Schreiben.</translation>
</message>
<message>
<source>Number format of the weights; halves are rounded once, from full precision</source>
<translation>Zahlenformat der Gewichte; halbe Genauigkeit wird einmal gerundet, aus voller</translation>
</message>
<message>
<source>Of each expert, the mean over the tensors</source>
<translation>Für jeden Experten das Mittel über die Tensoren</translation>
</message>
<message>
<source>Of each task, the mean of {n} steps</source>
<translation>Für jede Aufgabe das Mittel von {n} Schritten</translation>
</message>
<message>
<source>Of experts</source>
<translation>Der Experten</translation>
</message>
<message numerus="yes">
<source>Of the %n leading directions, {kept} kept their place: cosines of at least {least:g}, the mean is {mean}.</source>
<translation><numerusform>Von der führenden Richtung hat {kept} ihren Platz behalten: Kosinus von mindestens {least:g}, das Mittel ist {mean}.</numerusform><numerusform>Von den %n führenden Richtungen haben {kept} ihren Platz behalten: Kosinus von mindestens {least:g}, das Mittel ist {mean}.</numerusform></translation>
</message>
<message>
<source>Of the refinement with the summed task vectors</source>
<translation>Der Verfeinerung mit den summierten Aufgabenvektoren</translation>
</message>
<message>
<source>Older ones are removed when the program starts.</source>
<translation>Ältere werden beim Start des Programms entfernt.</translation>
</message>
<message>
<source>On the half of the data with which nothing was chosen, {examples} examples. {merges} merges took {time}.</source>
<translation>An der Hälfte der Daten, mit der nichts gewählt wurde, {examples} Beispiele. {merges} Merges dauerten {time}.</translation>
</message>
<message>
<source>One layer</source>
<translation>Eine Schicht</translation>
</message>
<message>
<source>Only a matrix has singular values.</source>
<translation>Nur eine Matrix hat Singulärwerte.</translation>
</message>
<message>
<source>Only headers were read; whether all fits is checked once it is open.</source>
<translation>Nur die Dateiköpfe wurden gelesen; ob alles passt, wird nach dem Öffnen geprüft.</translation>
</message>
<message>
<source>Only the tensors that a method merges</source>
<translation>Nur die Tensoren, die eine Methode zusammenführt</translation>
</message>
<message>
<source>Only what is on this disk already. Nothing is downloaded.</source>
<translation>Nur, was schon auf diesem Datenträger ist. Nichts wird heruntergeladen.</translation>
</message>
<message>
<source>Open</source>
<translation>Öffnen</translation>
</message>
<message>
<source>Open &amp;base model…</source>
<translation>&amp;Basismodell öffnen…</translation>
</message>
<message>
<source>Open &amp;recent</source>
<translation>&amp;Zuletzt geöffnet</translation>
</message>
<message>
<source>Open &amp;recipe…</source>
<translation>&amp;Rezept öffnen…</translation>
</message>
<message>
<source>Open a base and experts: what is checked before a merge appears here.</source>
<translation>Öffnen Sie eine Basis und Experten: Was vor einem Merge geprüft wird, erscheint hier.</translation>
</message>
<message>
<source>Open a base model and its experts first.</source>
<translation>Öffnen Sie zuerst ein Basismodell und seine Experten.</translation>
</message>
<message>
<source>Open a base model first</source>
<translation>Öffnen Sie zuerst ein Basismodell</translation>
</message>
<message>
<source>Open a base model first.</source>
<translation>Öffnen Sie zuerst ein Basismodell.</translation>
</message>
<message>
<source>Open a base model to see its layers.</source>
<translation>Öffnen Sie ein Basismodell, um seine Schichten zu sehen.</translation>
</message>
<message>
<source>Open a small trained model with its experts</source>
<translation>Ein kleines trainiertes Modell mit seinen Experten öffnen</translation>
</message>
<message>
<source>Open as base</source>
<translation>Als Basis öffnen</translation>
</message>
<message>
<source>Open base from a &amp;file…</source>
<translation>Basis aus Da&amp;tei öffnen…</translation>
</message>
<message>
<source>Open folder</source>
<translation>Ordner öffnen</translation>
</message>
<message>
<source>Open the sample</source>
<translation>Beispiel öffnen</translation>
</message>
<message>
<source>Open the sample: a small model and five models fine-tuned from it.</source>
<translation>Öffnen Sie das Beispiel: ein kleines Modell und fünf daraus feinabgestimmte Modelle.</translation>
</message>
<message>
<source>Open what was open in the window before</source>
<translation>Öffnen, was vorher im Fenster offen war</translation>
</message>
<message>
<source>Open {path}</source>
<translation>{path} öffnen</translation>
</message>
<message>
<source>Open {project}</source>
<translation>{project} öffnen</translation>
</message>
<message>
<source>Opening: the headers of the files are read …</source>
<translation>Wird geöffnet: Die Köpfe der Dateien werden gelesen …</translation>
</message>
<message>
<source>Outcome</source>
<translation>Verbleib</translation>
</message>
<message>
<source>Output</source>
<translation>Ausgabe</translation>
</message>
<message>
<source>Output type</source>
<translation>Ausgabetyp</translation>
</message>
<message numerus="yes">
<source>Over %n tensors.</source>
<translation><numerusform>Über %n Tensor.</numerusform><numerusform>Über %n Tensoren.</numerusform></translation>
</message>
<message>
<source>Overlap of the experts' leading directions</source>
<translation>Überlappung der führenden Richtungen der Experten</translation>
</message>
<message>
<source>Overlap of the leading eighth of directions of ACE's estimate and of the inputs: 1 where they span the same subspace, 0 where they are orthogonal.</source>
<translation>Überlappung des führenden Achtels der Richtungen der Schätzung von ACE und der Eingaben: 1, wo sie denselben Unterraum aufspannen, 0, wo sie orthogonal sind.</translation>
</message>
<message>
<source>Override</source>
<translation>Ausnahme</translation>
</message>
<message>
<source>Overrides</source>
<translation>Ausnahmen</translation>
</message>
<message>
<source>Own and others' inputs</source>
<translation>Eigene und fremde Eingaben</translation>
</message>
<message>
<source>PNG picture (*.png);;SVG drawing (*.svg);;PDF drawing (*.pdf)</source>
<translation>PNG-Bild (*.png);;SVG-Zeichnung (*.svg);;PDF-Zeichnung (*.pdf)</translation>
</message>
<message>
<source>Panel in its &amp;own window</source>
<translation>Bereich in &amp;eigenem Fenster</translation>
</message>
<message>
<source>Paper</source>
<translation>Artikel</translation>
</message>
<message>
<source>Parameter along the curve</source>
<translation>Parameter entlang der Kurve</translation>
</message>
<message>
<source>Parameter to vary</source>
<translation>Parameter, der sich ändert</translation>
</message>
<message>
<source>Parameters</source>
<translation>Parameter</translation>
</message>
<message>
<source>Peak memory of the engine while it merged, with what the engine itself takes.</source>
<translation>Höchster Speicherbedarf der Engine beim Merge, mit dem, was sie selbst belegt.</translation>
</message>
<message>
<source>Picture</source>
<translation>Bild</translation>
</message>
<message>
<source>Picture of this plot</source>
<translation>Bild dieser Grafik</translation>
</message>
<message>
<source>Pictures (*.png *.jpg *.jpeg *.webp *.bmp *.gif *.tif *.tiff *.ppm *.pgm)</source>
<translation>Bilder (*.png *.jpg *.jpeg *.webp *.bmp *.gif *.tif *.tiff *.ppm *.pgm)</translation>
</message>
<message>
<source>Pictures on white</source>
<translation>Bilder auf Weiß</translation>
</message>
<message>
<source>Places of the scores</source>
<translation>Bereiche der Bewertung</translation>
</message>
<message>
<source>Plot</source>
<translation>Grafik</translation>
</message>
<message>
<source>Preferences</source>
<translation>Einstellungen</translation>
</message>
<message>
<source>Preferences…</source>
<translation>Einstellungen …</translation>
</message>
<message>
<source>Presets for {label}</source>
<translation>Vorgaben für {label}</translation>
</message>
<message>
<source>Processors that the engine uses. Less leaves more to other programs.</source>
<translation>Prozessoren, die die Engine benutzt. Weniger lässt anderen Programmen mehr.</translation>
</message>
<message>
<source>Progress</source>
<translation>Fortschritt</translation>
</message>
<message>
<source>Progress: {share}</source>
<translation>Fortschritt: {share}</translation>
</message>
<message>
<source>Put the panels back as at the first start</source>
<translation>Die Bereiche wie beim ersten Start anordnen</translation>
</message>
<message>
<source>Quantity</source>
<translation>Größe</translation>
</message>
<message>
<source>Re&amp;name</source>
<translation>&amp;Umbenennen</translation>
</message>
<message>
<source>Reading headers</source>
<translation>Dateiköpfe werden gelesen</translation>
</message>
<message>
<source>Reading headers …</source>
<translation>Dateiköpfe werden gelesen …</translation>
</message>
<message>
<source>Reading the data …</source>
<translation>Daten werden gelesen …</translation>
</message>
<message>
<source>Recent projects</source>
<translation>Letzte Projekte</translation>
</message>
<message>
<source>Recipe</source>
<translation>Rezept</translation>
</message>
<message>
<source>Recipe not found</source>
<translation>Rezept nicht gefunden</translation>
</message>
<message>
<source>Recipes (*.yaml *.yml)</source>
<translation>Rezepte (*.yaml *.yml)</translation>
</message>
<message>
<source>Recipes for mergekit (*.yaml *.yml)</source>
<translation>Rezepte für mergekit (*.yaml *.yml)</translation>
</message>
<message>
<source>Refined fraction</source>
<translation>Verfeinerter Anteil</translation>
</message>
<message>
<source>Refinement</source>
<translation>Verfeinerung</translation>
</message>
<message>
<source>Regime</source>
<translation>Regime</translation>
</message>
<message>
<source>Relative difference over the model: {difference}</source>
<translation>Relativer Unterschied über das Modell: {difference}</translation>
</message>
<message>
<source>Remove</source>
<translation>Entfernen</translation>
</message>
<message>
<source>Remove expert</source>
<translation>Experten entfernen</translation>
</message>
<message>
<source>Remove from the disk</source>
<translation>Vom Datenträger entfernen</translation>
</message>
<message>
<source>Remove override</source>
<translation>Ausnahme entfernen</translation>
</message>
<message>
<source>Remove task</source>
<translation>Aufgabe entfernen</translation>
</message>
<message>
<source>Remove the selected experts</source>
<translation>Die gewählten Experten entfernen</translation>
</message>
<message>
<source>Remove the selected override</source>
<translation>Die gewählte Ausnahme entfernen</translation>
</message>
<message>
<source>Remove this task</source>
<translation>Diese Aufgabe entfernen</translation>
</message>
<message>
<source>Reopen &amp;last session</source>
<translation>&amp;Letzte Sitzung wieder öffnen</translation>
</message>
<message>
<source>Reopen last session</source>
<translation>Letzte Sitzung wieder öffnen</translation>
</message>
<message>
<source>Report</source>
<translation>Bericht</translation>
</message>
<message>
<source>Report a problem</source>
<translation>Problem melden</translation>
</message>
<message>
<source>Reports (*.html)</source>
<translation>Berichte (*.html)</translation>
</message>
<message>
<source>Restore, export, compare, rename, delete</source>
<translation>Wiederherstellen, exportieren, vergleichen, umbenennen, löschen</translation>
</message>
<message>
<source>Results</source>
<translation>Ergebnisse</translation>
</message>
<message>
<source>Revision</source>
<translation>Revision</translation>
</message>
<message>
<source>Ridge mass</source>
<translation>Ridge-Masse</translation>
</message>
<message>
<source>Ridge mass Σε</source>
<translation>Ridge-Masse Σε</translation>
</message>
<message>
<source>Ridge share α</source>
<translation>Ridge-Anteil α</translation>
</message>
<message>
<source>Ridge ε</source>
<translation>Ridge ε</translation>
</message>
<message>
<source>Role</source>
<translation>Rolle</translation>
</message>
<message>
<source>Role whose energies are shown</source>
<translation>Rolle, deren Energien gezeigt werden</translation>
</message>
<message>
<source>Routing</source>
<translation>Routing</translation>
</message>
<message>
<source>Rows: whose estimate; columns: whose inputs.</source>
<translation>Zeilen: wessen Schätzung; Spalten: wessen Eingaben.</translation>
</message>
<message>
<source>Run</source>
<translation>Lauf</translation>
</message>
<message>
<source>Runs</source>
<translation>Läufe</translation>
</message>
<message>
<source>S&amp;can a folder…</source>
<translation>Ordner d&amp;urchsuchen…</translation>
</message>
<message>
<source>S&amp;top opening</source>
<translation>Öffnen &amp;abbrechen</translation>
</message>
<message>
<source>Save &amp;as…</source>
<translation>Speichern u&amp;nter…</translation>
</message>
<message>
<source>Save CSV…</source>
<translation>Als CSV…</translation>
</message>
<message>
<source>Save as CS&amp;V…</source>
<translation>Als &amp;CSV speichern…</translation>
</message>
<message>
<source>Save it as another recipe, or as one for mergekit</source>
<translation>Als anderes Rezept speichern, oder als eines für mergekit</translation>
</message>
<message>
<source>Save picture</source>
<translation>Bild speichern</translation>
</message>
<message>
<source>Save picture…</source>
<translation>Bild speichern…</translation>
</message>
<message>
<source>Save recipe</source>
<translation>Rezept speichern</translation>
</message>
<message>
<source>Save report…</source>
<translation>Bericht speichern…</translation>
</message>
<message>
<source>Save table</source>
<translation>Tabelle speichern</translation>
</message>
<message>
<source>Save table…</source>
<translation>Tabelle speichern…</translation>
</message>
<message>
<source>Save the changes to {name}?</source>
<translation>Die Änderungen an {name} speichern?</translation>
</message>
<message>
<source>Save the table</source>
<translation>Tabelle speichern</translation>
</message>
<message>
<source>Save the table as CSV, with every digit</source>
<translation>Die Tabelle als CSV speichern, mit jeder Stelle</translation>
</message>
<message>
<source>Save what is loaded and chosen as a recipe</source>
<translation>Was geladen und gewählt ist, als Rezept speichern</translation>
</message>
<message>
<source>Say in the first lines what you did and what happened. Paths and the names of the open models are left out; look through the text all the same. It is in English for whoever reads it, but for what the window said to you. Nothing is sent: copy it to whoever looks after the program for you.</source>
<translation>Schreiben Sie in die ersten Zeilen, was Sie getan haben und was geschah. Pfade und die Namen der offenen Modelle sind weggelassen; sehen Sie den Text trotzdem durch. Er ist englisch, damit ihn alle lesen können, bis auf das, was das Fenster Ihnen gesagt hat. Nichts wird gesendet: Kopieren Sie ihn an die Person, die das Programm für Sie betreut.</translation>
</message>
<message>
<source>Scale and curves of this plot, and its picture to copy or save</source>
<translation>Skala und Kurven dieser Grafik, und ihr Bild zum Kopieren oder Speichern</translation>
</message>
<message>
<source>Scan a folder</source>
<translation>Ordner durchsuchen</translation>
</message>
<message>
<source>Scope</source>
<translation>Umfang</translation>
</message>
<message>
<source>Scope to try</source>
<translation>Umfang zum Erproben</translation>
</message>
<message>
<source>Score by value of the parameter</source>
<translation>Bewertung nach dem Wert des Parameters</translation>
</message>
<message>
<source>Score by {parameter}</source>
<translation>Bewertung nach {parameter}</translation>
</message>
<message>
<source>Scores</source>
<translation>Bewertung</translation>
</message>
<message>
<source>Scores by task</source>
<translation>Bewertungen nach Aufgaben</translation>
</message>
<message>
<source>Scores on the other half of the data</source>
<translation>Bewertungen an der anderen Hälfte der Daten</translation>
</message>
<message>
<source>Scores stand here once the models have been tried.</source>
<translation>Bewertungen stehen hier, sobald die Modelle erprobt sind.</translation>
</message>
<message>
<source>Scoring</source>
<translation>Bewertung läuft</translation>
</message>
<message>
<source>Scoring has ended.</source>
<translation>Die Bewertung ist beendet.</translation>
</message>
<message>
<source>Scratch folder</source>
<translation>Arbeitsordner</translation>
</message>
<message>
<source>Search {label}</source>
<translation>{label} suchen</translation>
</message>
<message>
<source>Second merge</source>
<translation>Zweiter Merge</translation>
</message>
<message>
<source>Second model of the test</source>
<translation>Zweites Modell des Tests</translation>
</message>
<message>
<source>Second text</source>
<translation>Zweiter Text</translation>
</message>
<message>
<source>Second text, where the task has two</source>
<translation>Zweiter Text, wo die Aufgabe zwei hat</translation>
</message>
<message>
<source>Seconds for planning and merging.</source>
<translation>Sekunden für Planung und Merge.</translation>
</message>
<message>
<source>See what base, expert and merge say to it, with probabilities</source>
<translation>Sehen, was Basis, Experte und Merge dazu sagen, mit Wahrscheinlichkeiten</translation>
</message>
<message>
<source>Seed</source>
<translation>Startwert</translation>
</message>
<message>
<source>Seed of what is written, the same for every model</source>
<translation>Startwert des Geschriebenen, derselbe für jedes Modell</translation>
</message>
<message>
<source>Select a layer that the method merges to try other values on it.</source>
<translation>Wählen Sie eine Schicht, die die Methode zusammenführt, um andere Werte an ihr zu erproben.</translation>
</message>
<message>
<source>Select a layer to compare directions.</source>
<translation>Wählen Sie eine Schicht, um Richtungen zu vergleichen.</translation>
</message>
<message>
<source>Select a layer to see how its changes are distributed.</source>
<translation>Wählen Sie eine Schicht, um zu sehen, wie ihre Änderungen verteilt sind.</translation>
</message>
<message>
<source>Select a layer to see its singular values.</source>
<translation>Wählen Sie eine Schicht, um ihre Singulärwerte zu sehen.</translation>
</message>
<message>
<source>Select a layer to see the experts' energies.</source>
<translation>Wählen Sie eine Schicht, um die Energien der Experten zu sehen.</translation>
</message>
<message>
<source>Select the layer before</source>
<translation>Die Schicht davor wählen</translation>
</message>
<message>
<source>Select the layer with the largest γ</source>
<translation>Die Schicht mit dem größten γ wählen</translation>
</message>
<message>
<source>Select the next layer</source>
<translation>Die nächste Schicht wählen</translation>
</message>
<message>
<source>Settings changed since this merge</source>
<translation>Einstellungen seit diesem Merge geändert</translation>
</message>
<message>
<source>Settings changed since this tensor was merged; merge again to apply them.</source>
<translation>Die Einstellungen haben sich seit dem Merge dieses Tensors geändert; führen Sie erneut zusammen, um sie anzuwenden.</translation>
</message>
<message>
<source>Shape</source>
<translation>Form</translation>
</message>
<message>
<source>Shape as stored in the files.</source>
<translation>Form, wie in den Dateien gespeichert.</translation>
</message>
<message>
<source>Share of the entries further than three deviations from the mean; of a Gaussian {gaussian_tail:.2%}. More: a few entries changed far more than the rest.</source>
<translation>Anteil der Einträge, die weiter als drei Abweichungen vom Mittel liegen; bei Gauß {gaussian_tail:.2%}. Mehr: Wenige Einträge haben sich weit mehr geändert als der Rest.</translation>
</message>
<message>
<source>Share of the inputs' leading directions that the estimate finds</source>
<translation>Anteil der führenden Richtungen der Eingaben, den die Schätzung findet</translation>
</message>
<message>
<source>Share of the norm of the base's matrix up to which the experts' changes may add up.</source>
<translation>Anteil an der Norm der Matrix der Basis, bis zu dem sich die Änderungen der Experten addieren dürfen.</translation>
</message>
<message>
<source>Share of the variance in the first i directions, with marks at 90, 95, 99 %</source>
<translation>Anteil der Varianz in den ersten i Richtungen, mit Marken bei 90, 95, 99 %</translation>
</message>
<message>
<source>Share of Σσ² in the {top} largest of {count} directions.</source>
<translation>Anteil an Σσ² in den {top} größten von {count} Richtungen.</translation>
</message>
<message>
<source>Shares of the experts by layer</source>
<translation>Anteile der Experten nach Schichten</translation>
</message>
<message>
<source>Shares of the experts by task</source>
<translation>Anteile der Experten nach Aufgaben</translation>
</message>
<message>
<source>Shortcuts</source>
<translation>Tastenkürzel</translation>
</message>
<message>
<source>Show &amp;inputs</source>
<translation>&amp;Eingaben zeigen</translation>
</message>
<message>
<source>Show all</source>
<translation>Alle zeigen</translation>
</message>
<message>
<source>Show all examples</source>
<translation>Alle Beispiele zeigen</translation>
</message>
<message>
<source>Show all {count}</source>
<translation>Alle {count} zeigen</translation>
</message>
<message>
<source>Show everything</source>
<translation>Alles zeigen</translation>
</message>
<message>
<source>Show in folder</source>
<translation>Im Ordner zeigen</translation>
</message>
<message>
<source>Show models and method</source>
<translation>Modelle und Methode zeigen</translation>
</message>
<message>
<source>Show or hide models and method</source>
<translation>Modelle und Methode ein- oder ausblenden</translation>
</message>
<message>
<source>Show or hide the details</source>
<translation>Die Einzelheiten ein- oder ausblenden</translation>
</message>
<message>
<source>Show the checks: {summary_of}</source>
<translation>Die Prüfungen zeigen: {summary_of}</translation>
</message>
<message>
<source>Show the layers of one role only, joined by lines</source>
<translation>Nur die Schichten einer Rolle zeigen, durch Linien verbunden</translation>
</message>
<message>
<source>Show the panel with the focus alone, or all again</source>
<translation>Den Bereich mit dem Fokus allein zeigen, oder wieder alle</translation>
</message>
<message>
<source>Show the plot again</source>
<translation>Die Grafik wieder zeigen</translation>
</message>
<message>
<source>Show the same figures as a table</source>
<translation>Dieselben Zahlen als Tabelle zeigen</translation>
</message>
<message>
<source>Show this panel alone, or all of them again (F11)</source>
<translation>Diesen Bereich allein zeigen, oder wieder alle (F11)</translation>
</message>
<message>
<source>Show what matters at least so much</source>
<translation>Zeigen, was mindestens so wichtig ist</translation>
</message>
<message>
<source>Show what was checked before the merge</source>
<translation>Zeigen, was vor dem Merge geprüft wurde</translation>
</message>
<message>
<source>Show {panel}</source>
<translation>{panel} zeigen</translation>
</message>
<message>
<source>Shows or hides this curve</source>
<translation>Blendet diese Kurve ein oder aus</translation>
</message>
<message>
<source>Singular values of the experts' changes and of the merge</source>
<translation>Singulärwerte der Änderungen der Experten und des Merges</translation>
</message>
<message>
<source>Singular values of the layer</source>
<translation>Singulärwerte der Schicht</translation>
</message>
<message>
<source>Size</source>
<translation>Größe</translation>
</message>
<message>
<source>Size on disk, and whether anything about the files deserves a look.</source>
<translation>Größe auf dem Datenträger, und ob an den Dateien etwas zu beachten ist.</translation>
</message>
<message>
<source>Skip</source>
<translation>Überspringen</translation>
</message>
<message>
<source>Some models keep the matrices for query, key and value, or for gate and up, in one tensor. Apart, each has its own γ, regime and spectrum; the published procedure takes them as one. The merged model's tensors keep their shapes either way.</source>
<translation>Manche Modelle halten die Matrizen für Query, Key und Value, oder für Gate und Up, in einem Tensor. Getrennt hat jede ihr eigenes γ, Regime und Spektrum; das veröffentlichte Verfahren nimmt sie als eine. Die Tensoren des zusammengeführten Modells behalten in jedem Fall ihre Form.</translation>
</message>
<message>
<source>Some tensors can be merged by another method or with other values, averaged, or kept from the base. Of two overrides for one tensor the later holds.</source>
<translation>Manche Tensoren können mit einer anderen Methode oder anderen Werten zusammengeführt, gemittelt oder aus der Basis behalten werden. Von zwei Ausnahmen für einen Tensor gilt die spätere.</translation>
</message>
<message>
<source>Something unexpected went wrong: {name}: {error}.</source>
<translation>Ein unerwarteter Fehler ist aufgetreten: {name}: {error}.</translation>
</message>
<message>
<source>Spaces</source>
<translation>Räume</translation>
</message>
<message>
<source>Spectra</source>
<translation>Spektren</translation>
</message>
<message>
<source>Spectra of both merges</source>
<translation>Spektren beider Merges</translation>
</message>
<message>
<source>Spectrum</source>
<translation>Spektrum</translation>
</message>
<message>
<source>Spectrum of the selected layer</source>
<translation>Spektrum der gewählten Schicht</translation>
</message>
<message>
<source>Spectrum under the recipe and under what is tried</source>
<translation>Spektrum unter dem Rezept und unter dem Versuch</translation>
</message>
<message>
<source>Split fused matrices for the merge</source>
<translation>Gebündelte Matrizen für den Merge trennen</translation>
</message>
<message>
<source>Square of the norm: the merged change's energy, by that of an expert of mean norm.</source>
<translation>Quadrat der Norm: die Energie der Änderung, durch die eines Experten mittlerer Norm.</translation>
</message>
<message>
<source>Squared Frobenius norm of the expert's change: the sum of its squared entries</source>
<translation>Quadrierte Frobenius-Norm der Änderung des Experten: die Summe ihrer quadrierten Einträge</translation>
</message>
<message>
<source>Standard deviation of the entries of ΔW.</source>
<translation>Standardabweichung der Einträge von ΔW.</translation>
</message>
<message>
<source>Standard deviation over the experts; γ is its square by that of the mean.</source>
<translation>Standardabweichung über die Experten; γ ist ihr Quadrat durch das des Mittels.</translation>
</message>
<message>
<source>Standard error.</source>
<translation>Standardfehler.</translation>
</message>
<message>
<source>Standard errors: {errors}</source>
<translation>Standardfehler: {errors}</translation>
</message>
<message>
<source>Start</source>
<translation>Start</translation>
</message>
<message>
<source>Start tuning</source>
<translation>Abstimmung starten</translation>
</message>
<message>
<source>Starting the engine …</source>
<translation>Die Engine startet …</translation>
</message>
<message>
<source>State</source>
<translation>Zustand</translation>
</message>
<message>
<source>Status</source>
<translation>Status</translation>
</message>
<message>
<source>Step {place} of {count}</source>
<translation>Schritt {place} von {count}</translation>
</message>
<message>
<source>Still comparing.</source>
<translation>Wird noch verglichen.</translation>
</message>
<message>
<source>Stop</source>
<translation>Anhalten</translation>
</message>
<message>
<source>Stop after the present tensor; rows that are there stay</source>
<translation>Nach dem jetzigen Tensor anhalten; vorhandene Zeilen bleiben</translation>
</message>
<message>
<source>Stop looking</source>
<translation>Ansehen anhalten</translation>
</message>
<message>
<source>Stop tuning</source>
<translation>Abstimmung anhalten</translation>
</message>
<message>
<source>Stop what is going on</source>
<translation>Anhalten, was gerade läuft</translation>
</message>
<message>
<source>Stopping…</source>
<translation>Hält an…</translation>
</message>
<message>
<source>Subspace</source>
<translation>Unterraum</translation>
</message>
<message>
<source>Subspaces</source>
<translation>Unterräume</translation>
</message>
<message>
<source>Table</source>
<translation>Tabelle</translation>
</message>
<message>
<source>Table (*.csv)</source>
<translation>Tabelle (*.csv)</translation>
</message>
<message>
<source>Table: {plot}</source>
<translation>Tabelle: {plot}</translation>
</message>
<message>
<source>Tables (*.csv)</source>
<translation>Tabellen (*.csv)</translation>
</message>
<message>
<source>Take the last change back</source>
<translation>Die letzte Änderung zurücknehmen</translation>
</message>
<message>
<source>Take the selected merge for the window's</source>
<translation>Den gewählten Merge zum Merge des Fensters machen</translation>
</message>
<message>
<source>Take the tutorial</source>
<translation>Einführung beginnen</translation>
</message>
<message>
<source>Take this run's settings, and its merge</source>
<translation>Die Einstellungen dieses Laufs übernehmen, und seinen Merge</translation>
</message>
<message>
<source>Target folder</source>
<translation>Zielordner</translation>
</message>
<message>
<source>Task</source>
<translation>Aufgabe</translation>
</message>
<message>
<source>Task arithmetic</source>
<translation>Task arithmetic</translation>
</message>
<message>
<source>Task heads are merged where all experts have one task: heads of one shape with the same labels. Otherwise, and without this, each expert's own is saved beside the merged model.</source>
<translation>Aufgabenköpfe werden zusammengeführt, wo alle Experten eine Aufgabe haben: Köpfe einer Form mit denselben Labels. Sonst, und ohne dies, wird der eigene jedes Experten neben dem zusammengeführten Modell gespeichert.</translation>
</message>
<message>
<source>Task vector</source>
<translation>Aufgabenvektor</translation>
</message>
<message>
<source>Task whose answers are wanted</source>
<translation>Aufgabe, deren Antworten gewünscht sind</translation>
</message>
<message>
<source>Task whose layers are shown</source>
<translation>Aufgabe, deren Schichten gezeigt werden</translation>
</message>
<message>
<source>Tasks</source>
<translation>Aufgaben</translation>
</message>
<message>
<source>Tasks are saved with the recipe. Drop data here.</source>
<translation>Aufgaben werden mit dem Rezept gespeichert. Daten hier ablegen.</translation>
</message>
<message>
<source>Tell me when long work ends</source>
<translation>Melden, wenn lange Arbeit endet</translation>
</message>
<message>
<source>Temperature; 0: always the likeliest word</source>
<translation>Temperatur; 0: immer das wahrscheinlichste Wort</translation>
</message>
<message>
<source>Tensor</source>
<translation>Tensor</translation>
</message>
<message>
<source>Tensors with a warning about the result.</source>
<translation>Tensoren mit einer Warnung zum Ergebnis.</translation>
</message>
<message>
<source>Text to try</source>
<translation>Text zum Erproben</translation>
</message>
<message>
<source>The agreement of every layer appears here once covariances are compared.</source>
<translation>Die Übereinstimmung jeder Schicht erscheint hier, sobald Kovarianzen verglichen sind.</translation>
</message>
<message>
<source>The base model</source>
<translation>Das Basismodell</translation>
</message>
<message>
<source>The base model's score.</source>
<translation>Die Bewertung des Basismodells.</translation>
</message>
<message>
<source>The chosen task</source>
<translation>Die gewählte Aufgabe</translation>
</message>
<message>
<source>The cosines appear here once the experts are compared.</source>
<translation>Die Kosinus erscheinen hier, sobald die Experten verglichen sind.</translation>
</message>
<message>
<source>The covariances are compared.</source>
<translation>Die Kovarianzen sind verglichen.</translation>
</message>
<message>
<source>The engine is ready: {devices}, {threads}.</source>
<translation>Die Engine ist bereit: {devices}, {threads}.</translation>
</message>
<message>
<source>The engine is still starting.</source>
<translation>Die Engine startet noch.</translation>
</message>
<message>
<source>The engine process cannot be started; close other programs and try again.</source>
<translation>Der Prozess der Engine kann nicht gestartet werden; schließen Sie andere Programme, und versuchen Sie es erneut.</translation>
</message>
<message>
<source>The engine said something strange: {name}: {error}.</source>
<translation>Die Engine hat Unverständliches gemeldet: {name}: {error}.</translation>
</message>
<message>
<source>The estimate finds {share:.0f} % of the inputs' {leading} leading directions of {count}; chance finds {chance:.0f} %</source>
<translation>Die Schätzung findet {share:.0f} % der {leading} führenden von {count} Richtungen der Eingaben; der Zufall findet {chance:.0f} %</translation>
</message>
<message>
<source>The experts' energies appear here once a base and its experts are open.</source>
<translation>Die Energien der Experten erscheinen hier, sobald eine Basis und ihre Experten offen sind.</translation>
</message>
<message>
<source>The experts' energies appear here once they are compared.</source>
<translation>Die Energien der Experten erscheinen hier, sobald sie verglichen sind.</translation>
</message>
<message>
<source>The export has ended.</source>
<translation>Der Export ist beendet.</translation>
</message>
<message>
<source>The fastest device there is</source>
<translation>Das schnellste vorhandene Gerät</translation>
</message>
<message>
<source>The fastest there is</source>
<translation>Das schnellste</translation>
</message>
<message>
<source>The fewest leading directions that hold {share:.0f} % of the energy Σσ².</source>
<translation>Die wenigsten führenden Richtungen, die {share:.0f} % der Energie Σσ² halten.</translation>
</message>
<message>
<source>The first merge is on its way …</source>
<translation>Der erste Merge ist unterwegs …</translation>
</message>
<message>
<source>The first {count} of {total} are shown.</source>
<translation>Die ersten {count} von {total} werden gezeigt.</translation>
</message>
<message>
<source>The folder is empty and will be filled.</source>
<translation>Der Ordner ist leer und wird gefüllt.</translation>
</message>
<message>
<source>The folder will be made.</source>
<translation>Der Ordner wird angelegt.</translation>
</message>
<message>
<source>The form was changed after this merge; what is exported is the merge as it was made.</source>
<translation>Das Formular wurde nach diesem Merge geändert; exportiert wird der Merge, wie er entstand.</translation>
</message>
<message>
<source>The last session did not end well.</source>
<translation>Die letzte Sitzung endete nicht gut.</translation>
</message>
<message>
<source>The last session did not end well. What was open is kept, and so are its merges.</source>
<translation>Die letzte Sitzung endete nicht gut. Was offen war, ist erhalten, auch die Merges.</translation>
</message>
<message>
<source>The mean accuracy of the five experts of the sample merged by each method with its defaults, with the modules that it leaves. Bars run from the base to the experts themselves.</source>
<translation>Die mittlere Genauigkeit der fünf Experten des Beispiels, zusammengeführt mit jeder Methode und ihren Standardwerten, mit den Modulen, die sie hinterlässt. Balken reichen vom Basismodell bis zu den Experten selbst.</translation>
</message>
<message>
<source>The merge has ended.</source>
<translation>Der Merge ist beendet.</translation>
</message>
<message>
<source>The merge is right, and the other model is wrong</source>
<translation>Der Merge liegt richtig, das andere Modell falsch</translation>
</message>
<message>
<source>The merged model's score.</source>
<translation>Die Bewertung des zusammengeführten Modells.</translation>
</message>
<message>
<source>The message and its details</source>
<translation>Die Meldung und ihre Einzelheiten</translation>
</message>
<message>
<source>The method and the parameters set.</source>
<translation>Die Methode und die gesetzten Parameter.</translation>
</message>
<message>
<source>The model's tensors</source>
<translation>Die Tensoren des Modells</translation>
</message>
<message>
<source>The model's tensors, and a close look at each</source>
<translation>Die Tensoren des Modells, und jeder aus der Nähe</translation>
</message>
<message>
<source>The models are still being read.</source>
<translation>Die Modelle werden noch gelesen.</translation>
</message>
<message>
<source>The models have not been tried on the tasks yet. Base, experts and every finished merge are tried one after another, in the background.</source>
<translation>Die Modelle wurden an den Aufgaben noch nicht erprobt. Basis, Experten und jeder fertige Merge werden einer nach dem anderen erprobt, im Hintergrund.</translation>
</message>
<message>
<source>The modules take {bytes} beside the weights, and an example {own:.1f} ms instead of {bare:.1f} ms without them, of {count} examples.</source>
<translation>Die Module belegen {bytes} neben den Gewichten, und ein Beispiel braucht {own:.1f} ms statt {bare:.1f} ms ohne sie, bei {count} Beispielen.</translation>
</message>
<message>
<source>The other model is right, and the merge is wrong</source>
<translation>Das andere Modell liegt richtig, der Merge falsch</translation>
</message>
<message>
<source>The overlap of subspaces without any relation.</source>
<translation>Die Überlappung von Unterräumen ohne jeden Zusammenhang.</translation>
</message>
<message>
<source>The papers behind each method stand in its form. Apache-2.0.</source>
<translation>Die Artikel zu jeder Methode stehen in ihrem Formular. Apache-2.0.</translation>
</message>
<message>
<source>The range of {wrong} is empty.</source>
<translation>Der Bereich von {wrong} ist leer.</translation>
</message>
<message>
<source>The recipe has {best}. {note}.</source>
<translation>Das Rezept hat {best}. {note}.</translation>
</message>
<message>
<source>The recipe is in {path}.</source>
<translation>Das Rezept ist in {path}.</translation>
</message>
<message>
<source>The report has ended.</source>
<translation>Der Bericht ist beendet.</translation>
</message>
<message>
<source>The report is in {file}.</source>
<translation>Der Bericht ist in {file}.</translation>
</message>
<message>
<source>The report says what went in, what the merge did layer by layer, and what came of it, with plots and tables, as one HTML file that opens anywhere.</source>
<translation>Der Bericht sagt, was hineinging, was der Merge Schicht für Schicht tat und was daraus wurde, mit Grafiken und Tabellen, als eine HTML-Datei, die sich überall öffnen lässt.</translation>
</message>
<message>
<source>The same with the other experts' inputs, in the mean: where it is as large, the estimate shows what all inputs share, and nothing of this expert's own.</source>
<translation>Dasselbe mit den Eingaben der anderen Experten, im Mittel: Wo es ebenso groß ist, zeigt die Schätzung, was alle Eingaben gemeinsam haben, und nichts, was diesem Experten eigen ist.</translation>
</message>
<message>
<source>The same γ along the model. Drag the line τ, or move it by Ctrl and the arrow keys: matrices above it are treated as heterogeneous.</source>
<translation>Dasselbe γ entlang des Modells. Ziehen Sie die Linie τ, oder bewegen Sie sie mit Strg und den Pfeiltasten: Matrizen darüber werden als heterogen behandelt.</translation>
</message>
<message>
<source>The sample: five experts, one small model</source>
<translation>Das Beispiel: fünf Experten, ein kleines Modell</translation>
</message>
<message>
<source>The score of the task's own expert.</source>
<translation>Die Bewertung des eigenen Experten der Aufgabe.</translation>
</message>
<message>
<source>The share of each expert in the mean over the layers and the examples.</source>
<translation>Der Anteil jedes Experten im Mittel über die Schichten und die Beispiele.</translation>
</message>
<message>
<source>The singular values of each expert's change of the chosen matrix, and of the merge. Ctrl+G goes to the most heterogeneous one.</source>
<translation>Die Singulärwerte der Änderung jedes Experten an der gewählten Matrix, und des Merges. Strg+G geht zur heterogensten.</translation>
</message>
<message>
<source>The task, and how it is measured.</source>
<translation>Die Aufgabe, und wie sie gemessen wird.</translation>
</message>
<message>
<source>The truth, and below it what the base says.</source>
<translation>Die richtige Antwort, und darunter, was die Basis sagt.</translation>
</message>
<message>
<source>The truth, and below it what the expert says.</source>
<translation>Die richtige Antwort, und darunter, was der Experte sagt.</translation>
</message>
<message>
<source>The truth, and below it what the merge says.</source>
<translation>Die richtige Antwort, und darunter, was der Merge sagt.</translation>
</message>
<message>
<source>The two merges are equal.</source>
<translation>Die beiden Merges sind gleich.</translation>
</message>
<message>
<source>There are no tasks yet: add data that the models can be tried on.</source>
<translation>Es gibt noch keine Aufgaben: Fügen Sie Daten hinzu, an denen die Modelle erprobt werden können.</translation>
</message>
<message>
<source>There is no model here, nor in the folders below.</source>
<translation>Weder hier noch in den Ordnern darunter ist ein Modell.</translation>
</message>
<message>
<source>There is nothing to redo.</source>
<translation>Es gibt nichts zu wiederholen.</translation>
</message>
<message>
<source>There is nothing to undo.</source>
<translation>Es gibt nichts zurückzunehmen.</translation>
</message>
<message>
<source>These values are in the recipe</source>
<translation>Diese Werte sind im Rezept</translation>
</message>
<message>
<source>This folder cannot be used: {reason}.</source>
<translation>Dieser Ordner kann nicht benutzt werden: {reason}.</translation>
</message>
<message>
<source>This layer has its own parameters (override: {rule}).</source>
<translation>Diese Schicht hat eigene Parameter (Ausnahme: {rule}).</translation>
</message>
<message>
<source>This machine's cluster</source>
<translation>Cluster dieses Rechners</translation>
</message>
<message>
<source>This merge has no preliminary solution to compare its directions with.</source>
<translation>Dieser Merge hat keine vorläufige Lösung, mit der seine Richtungen verglichen werden könnten.</translation>
</message>
<message>
<source>This merge has no router.</source>
<translation>Dieser Merge hat keinen Router.</translation>
</message>
<message>
<source>This merge has not been tried yet</source>
<translation>Dieser Merge wurde noch nicht erprobt</translation>
</message>
<message>
<source>This method draws random numbers. The same seed draws the same ones, whatever the order and the device; another seed shows how much the result owes to chance.</source>
<translation>Diese Methode zieht Zufallszahlen. Derselbe Startwert zieht dieselben, was auch immer Reihenfolge und Gerät sind; ein anderer zeigt, wie viel am Ergebnis Zufall ist.</translation>
</message>
<message>
<source>This method learns from data first: merge to see what comes of it.</source>
<translation>Diese Methode lernt zuerst aus Daten: nach dem Merge ist zu sehen, was daraus wurde.</translation>
</message>
<message>
<source>Threads</source>
<translation>Threads</translation>
</message>
<message>
<source>Threshold τ</source>
<translation>Schwelle τ</translation>
</message>
<message>
<source>Tick a parameter.</source>
<translation>Haken Sie einen Parameter an.</translation>
</message>
<message>
<source>Tick a&amp;ll</source>
<translation>A&amp;lle anhaken</translation>
</message>
<message>
<source>Tick every method</source>
<translation>Jede Methode anhaken</translation>
</message>
<message>
<source>Tick methods at the left, then Compare: each merges the models in turn, and their norms, distances and scores stand here side by side. The window's merge stays.</source>
<translation>Haken Sie links Methoden an, und drücken Sie „Vergleichen“: Jede führt die Modelle der Reihe nach zusammen, und ihre Normen, Abstände und Bewertungen stehen hier nebeneinander. Der Merge des Fensters bleibt.</translation>
</message>
<message>
<source>Tick no method</source>
<translation>Keine Methode anhaken</translation>
</message>
<message>
<source>Tick what shall go</source>
<translation>Haken Sie an, was gelöscht werden soll</translation>
</message>
<message>
<source>Time</source>
<translation>Zeit</translation>
</message>
<message>
<source>Transformer blocks, counted from 0: 4-7, or 3, or 0,2,9-. Empty: all.</source>
<translation>Transformer-Blöcke, von 0 gezählt: 4-7, oder 3, oder 0,2,9-. Leer: alle.</translation>
</message>
<message>
<source>Try</source>
<translation>Erproben</translation>
</message>
<message>
<source>Try base, experts and every finished merge</source>
<translation>Basis, Experten und jeden fertigen Merge erproben</translation>
</message>
<message>
<source>Try it</source>
<translation>Erproben</translation>
</message>
<message>
<source>Try it on the models</source>
<translation>An den Modellen erproben</translation>
</message>
<message>
<source>Try other values on the selected layer before you take them</source>
<translation>Andere Werte an der gewählten Schicht erproben, bevor Sie sie übernehmen</translation>
</message>
<message>
<source>Try the models on this example</source>
<translation>Die Modelle an diesem Beispiel erproben</translation>
</message>
<message>
<source>Tune</source>
<translation>Abstimmen</translation>
</message>
<message>
<source>Tuning</source>
<translation>Abstimmung läuft</translation>
</message>
<message>
<source>Tuning has ended.</source>
<translation>Die Abstimmung ist beendet.</translation>
</message>
<message>
<source>Two finished merges are needed: merge, change the method or a parameter, and merge again.</source>
<translation>Zwei fertige Merges sind nötig: Führen Sie zusammen, ändern Sie die Methode oder einen Parameter, und führen Sie erneut zusammen.</translation>
</message>
<message>
<source>Two finished merges layer by layer</source>
<translation>Zwei fertige Merges Schicht für Schicht</translation>
</message>
<message>
<source>Two merges</source>
<translation>Zwei Merges</translation>
</message>
<message>
<source>Type a text</source>
<translation>Text eingeben</translation>
</message>
<message>
<source>Type a text first.</source>
<translation>Geben Sie zuerst einen Text ein.</translation>
</message>
<message>
<source>Type a text or drop a picture, and see what base, expert and merge say to it</source>
<translation>Geben Sie einen Text ein oder legen Sie ein Bild ab, und sehen Sie, was Basis, Experte und Merge dazu sagen</translation>
</message>
<message>
<source>Unfold the column of the inputs</source>
<translation>Die Spalte der Eingaben ausklappen</translation>
</message>
<message>
<source>Unfold the column: base and experts</source>
<translation>Die Spalte ausklappen: Basis und Experten</translation>
</message>
<message>
<source>Unfold the column: method and parameters</source>
<translation>Die Spalte ausklappen: Methode und Parameter</translation>
</message>
<message>
<source>Unfold the column: the merges that are kept</source>
<translation>Die Spalte ausklappen: die behaltenen Merges</translation>
</message>
<message>
<source>Unload everything</source>
<translation>Alles entladen</translation>
</message>
<message>
<source>Until I delete them</source>
<translation>Bis ich sie lösche</translation>
</message>
<message>
<source>Unweighted mean of all tasks</source>
<translation>Ungewichtetes Mittel aller Aufgaben</translation>
</message>
<message>
<source>Use in ACE</source>
<translation>In ACE nutzen</translation>
</message>
<message>
<source>Use it for all</source>
<translation>Für alle nehmen</translation>
</message>
<message>
<source>Use it for these layers</source>
<translation>Für diese Schichten nehmen</translation>
</message>
<message>
<source>Use these values</source>
<translation>Diese Werte nehmen</translation>
</message>
<message>
<source>Use these values in the recipe</source>
<translation>Diese Werte im Rezept nehmen</translation>
</message>
<message>
<source>Value</source>
<translation>Wert</translation>
</message>
<message>
<source>Values from the papers and for model families</source>
<translation>Werte aus den Artikeln und für Modellfamilien</translation>
</message>
<message>
<source>Values of one parameter of {title}, with commas between, instead of other methods</source>
<translation>Werte eines Parameters von {title}, durch Semikolon getrennt, statt anderer Methoden</translation>
</message>
<message>
<source>Values to try</source>
<translation>Werte zum Erproben</translation>
</message>
<message>
<source>Var ln E</source>
<translation>Var ln E</translation>
</message>
<message>
<source>Variance of the logarithms of the experts' energies. Unlike γ it does not depend on the scale of the weights.</source>
<translation>Varianz der Logarithmen der Energien der Experten. Anders als γ hängt sie nicht von der Größenordnung der Gewichte ab.</translation>
</message>
<message>
<source>Version and licence</source>
<translation>Version und Lizenz</translation>
</message>
<message>
<source>Versions, device, memory and platform are copied, in English; nothing of your models.</source>
<translation>Versionen, Gerät, Speicher und Plattform sind kopiert, auf Englisch; nichts von Ihren Modellen.</translation>
</message>
<message>
<source>Vocabulary</source>
<translation>Vokabular</translation>
</message>
<message>
<source>Wait for the merge or the export to end, or cancel it.</source>
<translation>Warten Sie, bis der Merge oder der Export endet, oder brechen Sie ihn ab.</translation>
</message>
<message>
<source>Wait for the merge to end, or cancel it, before opening models.</source>
<translation>Warten Sie, bis der Merge endet, oder brechen Sie ihn ab, bevor Sie Modelle öffnen.</translation>
</message>
<message>
<source>Waiting for its turn in the merge.</source>
<translation>Wartet im Merge, bis er an der Reihe ist.</translation>
</message>
<message>
<source>Warning</source>
<translation>Warnung</translation>
</message>
<message>
<source>Warnings</source>
<translation>Warnungen</translation>
</message>
<message>
<source>Weight</source>
<translation>Gewicht</translation>
</message>
<message>
<source>Weight averaging</source>
<translation>Weight averaging</translation>
</message>
<message>
<source>Welcome</source>
<translation>Willkommen</translation>
</message>
<message>
<source>What became of the examples</source>
<translation>Was aus den Beispielen wurde</translation>
</message>
<message>
<source>What becomes of a tensor in which an expert has NaN (not a number) or Inf (infinity), as a training run that diverged leaves behind. The layer's notes and the model card name every such tensor.</source>
<translation>Was aus einem Tensor wird, in dem ein Experte NaN (keine Zahl) oder Inf (unendlich) hat, wie es ein divergiertes Training hinterlässt. Die Hinweise zur Schicht und die Modellkarte nennen jeden solchen Tensor.</translation>
</message>
<message>
<source>What becomes of the tensor; hover over a row for the reason. ◆ marks an override; the menu of the selected rows makes one.</source>
<translation>Was aus dem Tensor wird; zeigen Sie auf eine Zeile, um den Grund zu lesen. ◆ steht für eine Ausnahme; das Menü der gewählten Zeilen macht eine.</translation>
</message>
<message>
<source>What becomes of them</source>
<translation>Was aus ihnen wird</translation>
</message>
<message>
<source>What do you want to do?</source>
<translation>Was möchten Sie tun?</translation>
</message>
<message>
<source>What if</source>
<translation>Was wäre wenn</translation>
</message>
<message>
<source>What is &amp;free</source>
<translation>Was &amp;frei ist</translation>
</message>
<message>
<source>What is compared</source>
<translation>Was verglichen wird</translation>
</message>
<message>
<source>What is drawn of every layer</source>
<translation>Was von jeder Schicht gezeichnet wird</translation>
</message>
<message>
<source>What is drawn of the learning</source>
<translation>Was vom Lernen gezeichnet wird</translation>
</message>
<message>
<source>What is finished is kept: it can be continued next time.</source>
<translation>Was fertig ist, bleibt: Es lässt sich beim nächsten Mal fortsetzen.</translation>
</message>
<message>
<source>What is free</source>
<translation>Was frei ist</translation>
</message>
<message>
<source>What is tuned</source>
<translation>Was abgestimmt wird</translation>
</message>
<message>
<source>What is written stays</source>
<translation>Was geschrieben ist, bleibt</translation>
</message>
<message>
<source>What it does</source>
<translation>Wirkung</translation>
</message>
<message>
<source>What some tensors do differently; of two for one tensor the later wins</source>
<translation>Was manche Tensoren anders machen; von zwei für einen Tensor gilt die spätere</translation>
</message>
<message>
<source>What the engine and the window said</source>
<translation>Was die Engine und das Fenster gesagt haben</translation>
</message>
<message>
<source>What the merge did, as one HTML file</source>
<translation>Was der Merge tat, als eine HTML-Datei</translation>
</message>
<message>
<source>What the merge gets wrong that the experts had right.</source>
<translation>Was der Merge falsch macht und die Experten richtig hatten.</translation>
</message>
<message>
<source>What the merge is compared with</source>
<translation>Womit der Merge verglichen wird</translation>
</message>
<message>
<source>What the method does</source>
<translation>Was die Methode tut</translation>
</message>
<message>
<source>What the model does with the data; as said.</source>
<translation>Was das Modell mit den Daten tut; wie angegeben.</translation>
</message>
<message>
<source>What the model does with the data; guessed.</source>
<translation>Was das Modell mit den Daten tut; erraten.</translation>
</message>
<message>
<source>What the model writes: {role}</source>
<translation>Was das Modell schreibt: {role}</translation>
</message>
<message>
<source>What the report holds</source>
<translation>Was der Bericht enthält</translation>
</message>
<message>
<source>What the tensor does in its model.</source>
<translation>Was der Tensor in seinem Modell tut.</translation>
</message>
<message>
<source>What the tensors do in their model</source>
<translation>Was die Tensoren in ihrem Modell tun</translation>
</message>
<message>
<source>What they do</source>
<translation>Was sie tun</translation>
</message>
<message>
<source>What to compare</source>
<translation>Was verglichen werden soll</translation>
</message>
<message>
<source>What to do with the chosen run</source>
<translation>Was mit dem gewählten Lauf geschehen soll</translation>
</message>
<message>
<source>What was looked at before the merge, and how it came out</source>
<translation>Was vor dem Merge geprüft wurde, und was dabei herauskam</translation>
</message>
<message>
<source>What was open in the window before</source>
<translation>Was vorher im Fenster offen war</translation>
</message>
<message>
<source>What you open appears here.</source>
<translation>Was Sie öffnen, erscheint hier.</translation>
</message>
<message>
<source>What γ, τ, ε, regime and the other terms mean</source>
<translation>Was γ, τ, ε, Regime und die anderen Begriffe bedeuten</translation>
</message>
<message>
<source>What, and what one can do</source>
<translation>Was es ist, und was sich tun lässt</translation>
</message>
<message>
<source>Where each figure is at its worst</source>
<translation>Wo jede Größe am schlechtesten ist</translation>
</message>
<message>
<source>Where one tensor needs more, the checks say so before anything is merged.</source>
<translation>Wo ein Tensor mehr braucht, sagen es die Prüfungen, bevor etwas zusammengeführt wird.</translation>
</message>
<message>
<source>Where the last export went</source>
<translation>Wohin der letzte Export ging</translation>
</message>
<message>
<source>Where to compute</source>
<translation>Wo gerechnet wird</translation>
</message>
<message>
<source>Whether the tensor is merged, and with the parameters chosen now.</source>
<translation>Ob der Tensor zusammengeführt ist, und ob mit den jetzt gewählten Parametern.</translation>
</message>
<message>
<source>Which directions refinement kept, and which experts share</source>
<translation>Welche Richtungen die Verfeinerung behielt, und welche die Experten gemeinsam haben</translation>
</message>
<message>
<source>Which examples a merge lost and gained</source>
<translation>Welche Beispiele ein Merge verlor und gewann</translation>
</message>
<message>
<source>Which examples the merge gets wrong that the expert had right, and the other way round.</source>
<translation>Bei welchen Beispielen der Merge falsch liegt und der Experte richtig, und umgekehrt.</translation>
</message>
<message>
<source>Which expert a merge with a router takes for which examples</source>
<translation>Welchen Experten ein Merge mit Router für welche Beispiele nimmt</translation>
</message>
<message>
<source>Which layers are out of the ordinary, and what one can do</source>
<translation>Welche Schichten ungewöhnlich sind, und was sich tun lässt</translation>
</message>
<message>
<source>Which one is the base, from which the others were fine-tuned?</source>
<translation>Welches ist die Basis, aus der die anderen feinabgestimmt wurden?</translation>
</message>
<message>
<source>Which panel is shown</source>
<translation>Welcher Bereich gezeigt wird</translation>
</message>
<message>
<source>Which tensors are shown</source>
<translation>Welche Tensoren gezeigt werden</translation>
</message>
<message>
<source>Which tensors the method merges, and in which orientation; the authors' presets reproduce their scripts.</source>
<translation>Welche Tensoren die Methode zusammenführt, und in welcher Ausrichtung; die Vorgaben der Autoren bilden deren Skripte nach.</translation>
</message>
<message>
<source>Whoever reaches a Ray cluster can run programs in it: keep it in a closed network. Workers on this machine are not reached from outside.</source>
<translation>Wer einen Ray-Cluster erreicht, kann in ihm Programme ausführen: Betreiben Sie ihn in einem geschlossenen Netz. Arbeiter auf diesem Rechner sind von außen nicht erreichbar.</translation>
</message>
<message>
<source>Whole model</source>
<translation>Ganzes Modell</translation>
</message>
<message>
<source>Whose inputs</source>
<translation>Wessen Eingaben</translation>
</message>
<message>
<source>Whose inputs ACE's covariances show</source>
<translation>Wessen Eingaben die Kovarianzen von ACE zeigen</translation>
</message>
<message>
<source>Whose task it is</source>
<translation>Wessen Aufgabe es ist</translation>
</message>
<message>
<source>Will hold</source>
<translation>Enthält dann</translation>
</message>
<message>
<source>Window</source>
<translation>Fenster</translation>
</message>
<message>
<source>Words in the message</source>
<translation>Wörter in der Meldung</translation>
</message>
<message>
<source>Workers of a &amp;cluster</source>
<translation>Arbeiter eines &amp;Clusters</translation>
</message>
<message>
<source>Workers of a cluster</source>
<translation>Arbeiter eines Clusters</translation>
</message>
<message>
<source>Workspace</source>
<translation>Arbeitsbereich</translation>
</message>
<message>
<source>Workspaces</source>
<translation>Arbeitsbereiche</translation>
</message>
<message>
<source>Write report</source>
<translation>Bericht schreiben</translation>
</message>
<message>
<source>Write the merged model as a folder</source>
<translation>Das zusammengeführte Modell als Ordner schreiben</translation>
</message>
<message>
<source>Write the table to a file</source>
<translation>Die Tabelle in eine Datei schreiben</translation>
</message>
<message>
<source>Write this run's model as a folder</source>
<translation>Das Modell dieses Laufs als Ordner schreiben</translation>
</message>
<message>
<source>Write what the merge did as one HTML file</source>
<translation>Was der Merge tat, als eine HTML-Datei schreiben</translation>
</message>
<message>
<source>Writing the report</source>
<translation>Bericht wird geschrieben</translation>
</message>
<message>
<source>YAML, of this program or mergekit</source>
<translation>YAML, von diesem Programm oder mergekit</translation>
</message>
<message>
<source>a mean of {mean}, beside base and experts, task by task</source>
<translation>im Mittel {mean}, neben Basis und Experten, Aufgabe für Aufgabe</translation>
</message>
<message>
<source>a mean score of {before} becomes {now}</source>
<translation>eine mittlere Bewertung von {before} wird zu {now}</translation>
</message>
<message>
<source>a model of {bytes} for each of these</source>
<translation>für jeden davon ein Modell von {bytes}</translation>
</message>
<message>
<source>a new or empty folder</source>
<translation>ein neuer oder leerer Ordner</translation>
</message>
<message>
<source>adding {what}</source>
<translation>{what} hinzufügen</translation>
</message>
<message>
<source>after</source>
<translation>nachher</translation>
</message>
<message>
<source>after refinement</source>
<translation>nach der Verfeinerung</translation>
</message>
<message>
<source>against</source>
<translation>gegen</translation>
</message>
<message>
<source>all</source>
<translation>alle</translation>
</message>
<message>
<source>all blocks</source>
<translation>alle Blöcke</translation>
</message>
<message>
<source>all names</source>
<translation>alle Namen</translation>
</message>
<message>
<source>any number of experts</source>
<translation>beliebig viele Experten</translation>
</message>
<message>
<source>any role</source>
<translation>jede Rolle</translation>
</message>
<message>
<source>as in the base</source>
<translation>wie in der Basis</translation>
</message>
<message>
<source>as it was</source>
<translation>wie es war</translation>
</message>
<message>
<source>as the base</source>
<translation>wie die Basis</translation>
</message>
<message>
<source>as the head's config says</source>
<translation>wie die Konfiguration des Kopfes sagt</translation>
</message>
<message>
<source>as the recipe</source>
<translation>wie das Rezept</translation>
</message>
<message>
<source>as the recipe says</source>
<translation>wie das Rezept sagt</translation>
</message>
<message>
<source>as usual</source>
<translation>wie üblich</translation>
</message>
<message>
<source>at δ</source>
<translation>bei δ</translation>
</message>
<message>
<source>average</source>
<translation>mitteln</translation>
</message>
<message>
<source>base</source>
<translation>Basis</translation>
</message>
<message>
<source>before</source>
<translation>vorher</translation>
</message>
<message>
<source>before (W_pre)</source>
<translation>vorher (W_pre)</translation>
</message>
<message>
<source>before and after refinement</source>
<translation>vor und nach der Verfeinerung</translation>
</message>
<message>
<source>before the changes</source>
<translation>vor den Änderungen</translation>
</message>
<message>
<source>beyond {tail:.0f} deviations</source>
<translation>jenseits von {tail:.0f} Abweichungen</translation>
</message>
<message>
<source>block</source>
<translation>Block</translation>
</message>
<message>
<source>block {block}</source>
<translation>Block {block}</translation>
</message>
<message>
<source>block, input → output</source>
<translation>Block, Eingang → Ausgang</translation>
</message>
<message>
<source>by chance</source>
<translation>durch Zufall</translation>
</message>
<message>
<source>cap factor</source>
<translation>Kürzungsfaktor</translation>
</message>
<message>
<source>centred cosine</source>
<translation>zentrierter Kosinus</translation>
</message>
<message>
<source>chance</source>
<translation>Zufall</translation>
</message>
<message>
<source>change of experts</source>
<translation>Wechsel von Experten</translation>
</message>
<message>
<source>change of options</source>
<translation>Änderung von Optionen</translation>
</message>
<message>
<source>change of overrides</source>
<translation>Änderung von Ausnahmen</translation>
</message>
<message>
<source>change of parameters</source>
<translation>Änderung von Parametern</translation>
</message>
<message>
<source>change of scope</source>
<translation>Änderung des Umfangs</translation>
</message>
<message>
<source>change of tasks</source>
<translation>Änderung von Aufgaben</translation>
</message>
<message>
<source>change of the base model</source>
<translation>Wechsel des Basismodells</translation>
</message>
<message>
<source>change of the cap</source>
<translation>Änderung der Obergrenze</translation>
</message>
<message>
<source>change of {parameter}</source>
<translation>Änderung: {parameter}</translation>
</message>
<message>
<source>change to {method}</source>
<translation>Wechsel zu {method}</translation>
</message>
<message>
<source>chosen</source>
<translation>gewählt</translation>
</message>
<message>
<source>comparing covariances</source>
<translation>Kovarianzen werden verglichen</translation>
</message>
<message>
<source>comparing the experts</source>
<translation>Experten werden verglichen</translation>
</message>
<message>
<source>condition number</source>
<translation>Konditionszahl</translation>
</message>
<message>
<source>cosine</source>
<translation>Kosinus</translation>
</message>
<message>
<source>cumulative energy</source>
<translation>kumulierte Energie</translation>
</message>
<message>
<source>cumulative energy (%)</source>
<translation>kumulierte Energie (%)</translation>
</message>
<message>
<source>cumulative variance</source>
<translation>kumulierte Varianz</translation>
</message>
<message>
<source>cumulative variance (%)</source>
<translation>kumulierte Varianz (%)</translation>
</message>
<message>
<source>d MMMM</source>
<translation>d. MMMM</translation>
</message>
<message>
<source>d MMMM yyyy</source>
<translation>d. MMMM yyyy</translation>
</message>
<message>
<source>deviation</source>
<translation>Abweichung</translation>
</message>
<message>
<source>deviation of ln energy</source>
<translation>Abweichung der ln-Energie</translation>
</message>
<message>
<source>difference</source>
<translation>Unterschied</translation>
</message>
<message>
<source>directions</source>
<translation>Richtungen</translation>
</message>
<message>
<source>directions for {share:.0f} %</source>
<translation>Richtungen für {share:.0f} %</translation>
</message>
<message>
<source>distance from {name}: {value:.2f}</source>
<translation>Abstand von {name}: {value:.2f}</translation>
</message>
<message>
<source>draws random numbers</source>
<translation>zieht Zufallszahlen</translation>
</message>
<message>
<source>effective rank</source>
<translation>effektiver Rang</translation>
</message>
<message>
<source>eigenvalue λᵢ / Σλ</source>
<translation>Eigenwert λᵢ / Σλ</translation>
</message>
<message>
<source>eigenvalue λᵢ / λ₁</source>
<translation>Eigenwert λᵢ / λ₁</translation>
</message>
<message>
<source>eigenvalues</source>
<translation>Eigenwerte</translation>
</message>
<message>
<source>energy (%)</source>
<translation>Energie (%)</translation>
</message>
<message>
<source>energy in top 5 %</source>
<translation>Energie in den obersten 5 %</translation>
</message>
<message>
<source>energy ‖ΔW‖²</source>
<translation>Energie ‖ΔW‖²</translation>
</message>
<message>
<source>entries</source>
<translation>Einträge</translation>
</message>
<message>
<source>entries in a bin</source>
<translation>Einträge in einer Klasse</translation>
</message>
<message>
<source>entries in the bin</source>
<translation>Einträge in der Klasse</translation>
</message>
<message>
<source>entry of ΔW</source>
<translation>Eintrag von ΔW</translation>
</message>
<message>
<source>error</source>
<translation>Fehler</translation>
</message>
<message>
<source>estimate</source>
<translation>Schätzung</translation>
</message>
<message>
<source>estimate along inputs</source>
<translation>Schätzung entlang der Eingaben</translation>
</message>
<message>
<source>estimate of {one}, inputs of {other}</source>
<translation>Schätzung von {one}, Eingaben von {other}</translation>
</message>
<message>
<source>excess kurtosis</source>
<translation>Exzess</translation>
</message>
<message>
<source>exp of the entropy of σᵢ/Σσ (Roy and Vetterli, 2007): how many directions carry the matrix; from 1, one direction, to all of them, equally strong.</source>
<translation>exp der Entropie von σᵢ/Σσ (Roy und Vetterli, 2007): wie viele Richtungen die Matrix tragen; von 1, einer Richtung, bis zu allen, gleich stark.</translation>
</message>
<message>
<source>expert</source>
<translation>Experte</translation>
</message>
<message>
<source>experts</source>
<translation>Experten</translation>
</message>
<message>
<source>experts' changes, this layer</source>
<translation>Änderungen der Experten, diese Schicht</translation>
</message>
<message>
<source>experts' changes, whole model</source>
<translation>Änderungen der Experten, ganzes Modell</translation>
</message>
<message>
<source>experts' leading directions</source>
<translation>führende Richtungen der Experten</translation>
</message>
<message>
<source>exported</source>
<translation>exportiert</translation>
</message>
<message>
<source>exporting</source>
<translation>Export läuft</translation>
</message>
<message>
<source>fits</source>
<translation>passt</translation>
</message>
<message>
<source>from</source>
<translation>von</translation>
</message>
<message>
<source>gained</source>
<translation>gewonnen</translation>
</message>
<message>
<source>here {figures}</source>
<translation>hier {figures}</translation>
</message>
<message>
<source>here γ exceeds τ only because the mean log energy is near zero (norms near 1), not because the experts disagree</source>
<translation>hier liegt γ nur über τ, weil die mittlere Log-Energie nahe null ist (Normen nahe 1), nicht weil die Experten sich unterscheiden</translation>
</message>
<message>
<source>heterogeneous</source>
<translation>heterogen</translation>
</message>
<message>
<source>heterogeneous, γ near its pole</source>
<translation>heterogen, γ nahe seinem Pol</translation>
</message>
<message>
<source>heterogeneous: γ &gt; τ</source>
<translation>heterogen: γ &gt; τ</translation>
</message>
<message>
<source>homogeneous</source>
<translation>homogen</translation>
</message>
<message>
<source>homogeneous: no refinement, before = after</source>
<translation>homogen: keine Verfeinerung, vorher = nachher</translation>
</message>
<message>
<source>how far each expert moved each matrix, and how much the experts agree</source>
<translation>wie weit jeder Experte jede Matrix bewegt hat und wie sehr die Experten übereinstimmen</translation>
</message>
<message>
<source>in the mean {figures}</source>
<translation>im Mittel {figures}</translation>
</message>
<message>
<source>index i</source>
<translation>Index i</translation>
</message>
<message>
<source>index i of the singular vector</source>
<translation>Index i des Singulärvektors</translation>
</message>
<message>
<source>info</source>
<translation>Hinweis</translation>
</message>
<message>
<source>inputs</source>
<translation>Eingaben</translation>
</message>
<message>
<source>its expert, in colour</source>
<translation>sein Experte, farbig</translation>
</message>
<message>
<source>its formula and its paper</source>
<translation>Formel und Veröffentlichung</translation>
</message>
<message>
<source>keep from the base</source>
<translation>aus der Basis behalten</translation>
</message>
<message>
<source>keep the base's tensor</source>
<translation>Tensor der Basis behalten</translation>
</message>
<message>
<source>kept</source>
<translation>erhalten</translation>
</message>
<message>
<source>layer</source>
<translation>Schicht</translation>
</message>
<message>
<source>layer, input → output (numbers: block)</source>
<translation>Schicht, Eingang → Ausgang (Zahlen: Block)</translation>
</message>
<message>
<source>leave the expert out</source>
<translation>Experten weglassen</translation>
</message>
<message>
<source>leaves modules</source>
<translation>hinterlässt Module</translation>
</message>
<message>
<source>left (outputs)</source>
<translation>links (Ausgänge)</translation>
</message>
<message>
<source>loading the model …</source>
<translation>Modell wird geladen …</translation>
</message>
<message>
<source>looking at the routes of {task}</source>
<translation>Routing von {task} wird angesehen</translation>
</message>
<message>
<source>loss</source>
<translation>Verlust</translation>
</message>
<message>
<source>loss of {task}</source>
<translation>Verlust von {task}</translation>
</message>
<message>
<source>lost</source>
<translation>verloren</translation>
</message>
<message>
<source>matched by token</source>
<translation>nach Token zugeordnet</translation>
</message>
<message>
<source>mean</source>
<translation>Mittel</translation>
</message>
<message>
<source>mean ln E</source>
<translation>Mittel ln E</translation>
</message>
<message>
<source>mean ln energy</source>
<translation>mittlere ln-Energie</translation>
</message>
<message>
<source>mean on the sample</source>
<translation>Mittel am Beispiel</translation>
</message>
<message>
<source>mean on the sample {mean:.3f}</source>
<translation>Mittel am Beispiel {mean:.3f}</translation>
</message>
<message>
<source>mean score</source>
<translation>mittlere Bewertung</translation>
</message>
<message>
<source>mean {score}</source>
<translation>Mittel {score}</translation>
</message>
<message>
<source>merge</source>
<translation>Merge</translation>
</message>
<message>
<source>merge as the recipe does, with other values</source>
<translation>zusammenführen wie das Rezept, mit anderen Werten</translation>
</message>
<message>
<source>merge by {title}</source>
<translation>zusammenführen mit {title}</translation>
</message>
<message>
<source>merge those of one task</source>
<translation>die einer Aufgabe zusammenführen</translation>
</message>
<message>
<source>merge: {answer}</source>
<translation>Merge: {answer}</translation>
</message>
<message>
<source>merged</source>
<translation>Merge</translation>
</message>
<message>
<source>merged {when} in {took}</source>
<translation>zusammengeführt {when} in {took}</translation>
</message>
<message>
<source>merging</source>
<translation>Merge läuft</translation>
</message>
<message>
<source>metric</source>
<translation>Maß</translation>
</message>
<message>
<source>models changed since</source>
<translation>Modelle seither geändert</translation>
</message>
<message>
<source>near γ's pole</source>
<translation>nahe dem Pol von γ</translation>
</message>
<message>
<source>needs data</source>
<translation>braucht Daten</translation>
</message>
<message>
<source>no</source>
<translation>nein</translation>
</message>
<message>
<source>no base model</source>
<translation>kein Basismodell</translation>
</message>
<message>
<source>no data</source>
<translation>ohne Daten</translation>
</message>
<message>
<source>no matrix has a warning</source>
<translation>keine Matrix hat eine Warnung</translation>
</message>
<message>
<source>no merge with a router</source>
<translation>kein Merge mit Router</translation>
</message>
<message>
<source>no merge yet</source>
<translation>noch kein Merge</translation>
</message>
<message>
<source>no parameter</source>
<translation>kein Parameter</translation>
</message>
<message>
<source>no refinement, before = after</source>
<translation>keine Verfeinerung, vorher = nachher</translation>
</message>
<message>
<source>no τ</source>
<translation>kein τ</translation>
</message>
<message>
<source>none</source>
<translation>keine</translation>
</message>
<message>
<source>none: the recipe names no tasks</source>
<translation>keine: das Rezept nennt keine Aufgaben</translation>
</message>
<message>
<source>norm</source>
<translation>Norm</translation>
</message>
<message>
<source>norm of the change, by the experts' mean</source>
<translation>Norm der Änderung, durch das Mittel der Experten</translation>
</message>
<message>
<source>norm ‖ΔW‖</source>
<translation>Norm ‖ΔW‖</translation>
</message>
<message>
<source>not a number</source>
<translation>keine Zahl</translation>
</message>
<message>
<source>not exported yet</source>
<translation>noch nicht exportiert</translation>
</message>
<message>
<source>not known</source>
<translation>nicht bekannt</translation>
</message>
<message>
<source>not known yet</source>
<translation>noch nicht bekannt</translation>
</message>
<message>
<source>not merged yet</source>
<translation>noch nicht zusammengeführt</translation>
</message>
<message>
<source>nothing loaded</source>
<translation>nichts geladen</translation>
</message>
<message>
<source>nuclear norm</source>
<translation>Kernnorm</translation>
</message>
<message>
<source>of no expert</source>
<translation>keines Experten</translation>
</message>
<message numerus="yes">
<source>on %n tasks, beside base and experts; measured while the report is written</source>
<translation><numerusform>auf %n Aufgabe, neben Basis und Experten; gemessen, während der Bericht geschrieben wird</numerusform><numerusform>auf %n Aufgaben, neben Basis und Experten; gemessen, während der Bericht geschrieben wird</numerusform></translation>
</message>
<message>
<source>one expert only</source>
<translation>nur ein Experte</translation>
</message>
<message>
<source>or values of one parameter</source>
<translation>oder Werte eines Parameters</translation>
</message>
<message>
<source>other tensors than the base has</source>
<translation>andere Tensoren als die Basis</translation>
</message>
<message>
<source>others' inputs</source>
<translation>fremde Eingaben</translation>
</message>
<message>
<source>overlap</source>
<translation>Überlappung</translation>
</message>
<message>
<source>overlap of leading directions</source>
<translation>Überlappung der führenden Richtungen</translation>
</message>
<message>
<source>own inputs</source>
<translation>eigene Eingaben</translation>
</message>
<message>
<source>plain cosine</source>
<translation>einfacher Kosinus</translation>
</message>
<message>
<source>reading headers</source>
<translation>Dateiköpfe werden gelesen</translation>
</message>
<message>
<source>reading headers …</source>
<translation>Dateiköpfe werden gelesen …</translation>
</message>
<message>
<source>reading the data …</source>
<translation>Daten werden gelesen …</translation>
</message>
<message>
<source>reading …</source>
<translation>wird gelesen …</translation>
</message>
<message>
<source>ready</source>
<translation>bereit</translation>
</message>
<message>
<source>recipe</source>
<translation>Rezept</translation>
</message>
<message>
<source>refinement cosine</source>
<translation>Verfeinerungskosinus</translation>
</message>
<message>
<source>refinement ratio</source>
<translation>Verfeinerungsverhältnis</translation>
</message>
<message>
<source>regime</source>
<translation>Regime</translation>
</message>
<message>
<source>relative difference</source>
<translation>relativer Unterschied</translation>
</message>
<message>
<source>relative difference {relative} · cosine {cosine} · ‖W − W₀‖ {first_norm} and {second_norm}</source>
<translation>relativer Unterschied {relative} · Kosinus {cosine} · ‖W − W₀‖ {first_norm} und {second_norm}</translation>
</message>
<message>
<source>relative to the largest</source>
<translation>relativ zum größten</translation>
</message>
<message>
<source>removing {what}</source>
<translation>{what} entfernen</translation>
</message>
<message>
<source>renaming {what}</source>
<translation>{what} umbenennen</translation>
</message>
<message>
<source>ridge mass Σε = {ridge_mass}</source>
<translation>Ridge-Masse Σε = {ridge_mass}</translation>
</message>
<message>
<source>ridge mass Σεₜ</source>
<translation>Ridge-Masse Σεₜ</translation>
</message>
<message>
<source>right (inputs)</source>
<translation>rechts (Eingänge)</translation>
</message>
<message>
<source>role</source>
<translation>Rolle</translation>
</message>
<message>
<source>role (in each: layers, input → output; box: quartiles and median)</source>
<translation>Rolle (in jeder: Schichten, Eingang → Ausgang; Kasten: Quartile und Median)</translation>
</message>
<message>
<source>row by row</source>
<translation>Zeile für Zeile</translation>
</message>
<message>
<source>score</source>
<translation>Bewertung</translation>
</message>
<message>
<source>score on the half that is searched with</source>
<translation>Bewertung an der Hälfte, mit der gesucht wird</translation>
</message>
<message>
<source>scored on the other half</source>
<translation>an der anderen Hälfte bewertet</translation>
</message>
<message>
<source>scoring</source>
<translation>Bewertung läuft</translation>
</message>
<message>
<source>scoring {title} on {task}</source>
<translation>{title} wird an {task} bewertet</translation>
</message>
<message>
<source>seconds</source>
<translation>Sekunden</translation>
</message>
<message>
<source>share of the expert's score</source>
<translation>Anteil an der Bewertung des Experten</translation>
</message>
<message>
<source>should be {label}</source>
<translation>richtig wäre {label}</translation>
</message>
<message>
<source>should be: {label}</source>
<translation>richtig wäre: {label}</translation>
</message>
<message>
<source>singular value σᵢ</source>
<translation>Singulärwert σᵢ</translation>
</message>
<message>
<source>singular value σᵢ / σ₁</source>
<translation>Singulärwert σᵢ / σ₁</translation>
</message>
<message>
<source>singular values</source>
<translation>Singulärwerte</translation>
</message>
<message>
<source>singular values before and after refinement, of the matrices that stand out most</source>
<translation>Singulärwerte vor und nach der Verfeinerung, für die auffälligsten Matrizen</translation>
</message>
<message>
<source>size and last use</source>
<translation>Größe und zuletzt benutzt</translation>
</message>
<message>
<source>split for the merge</source>
<translation>für den Merge trennen</translation>
</message>
<message>
<source>stable rank</source>
<translation>stabiler Rang</translation>
</message>
<message>
<source>step</source>
<translation>Schritt</translation>
</message>
<message>
<source>stop</source>
<translation>anhalten</translation>
</message>
<message>
<source>task</source>
<translation>Aufgabe</translation>
</message>
<message>
<source>task vectors of the experts</source>
<translation>Aufgabenvektoren der Experten</translation>
</message>
<message>
<source>the base</source>
<translation>die Basis</translation>
</message>
<message>
<source>the base's config and tokenizer files, README.md, merge_recipe.yaml</source>
<translation>Konfiguration und Tokenizer-Dateien der Basis, README.md, merge_recipe.yaml</translation>
</message>
<message>
<source>the energy of {most} is {ratio} times that of {least}</source>
<translation>die Energie von {most} ist das {ratio}-Fache der von {least}</translation>
</message>
<message>
<source>the experts' own heads in heads/</source>
<translation>die eigenen Köpfe der Experten in heads/</translation>
</message>
<message>
<source>the merge</source>
<translation>der Merge</translation>
</message>
<message>
<source>the merge says {answer}, {model} {other}</source>
<translation>der Merge sagt {answer}, {model} {other}</translation>
</message>
<message>
<source>the method</source>
<translation>die Methode</translation>
</message>
<message>
<source>the task of no expert</source>
<translation>die Aufgabe keines Experten</translation>
</message>
<message>
<source>the task of {owner}</source>
<translation>die Aufgabe von {owner}</translation>
</message>
<message>
<source>this merge</source>
<translation>dieser Merge</translation>
</message>
<message>
<source>this method</source>
<translation>diese Methode</translation>
</message>
<message>
<source>to</source>
<translation>bis</translation>
</message>
<message>
<source>today {time}</source>
<translation>heute {time}</translation>
</message>
<message>
<source>tried</source>
<translation>Versuch</translation>
</message>
<message>
<source>tuning</source>
<translation>Abstimmung läuft</translation>
</message>
<message>
<source>union of all tokens</source>
<translation>Vereinigung aller Token</translation>
</message>
<message>
<source>value</source>
<translation>Wert</translation>
</message>
<message>
<source>variance (%)</source>
<translation>Varianz (%)</translation>
</message>
<message>
<source>warning</source>
<translation>Warnung</translation>
</message>
<message>
<source>weight of {what}</source>
<translation>Gewicht von {what}</translation>
</message>
<message>
<source>what was done to each, why, and in which numbers</source>
<translation>was mit jedem geschah, warum, und in welchen Zahlen</translation>
</message>
<message>
<source>writing the report</source>
<translation>Bericht wird geschrieben</translation>
</message>
<message>
<source>writing …</source>
<translation>schreibt …</translation>
</message>
<message>
<source>yes</source>
<translation>ja</translation>
</message>
<message>
<source>yesterday {time}</source>
<translation>gestern {time}</translation>
</message>
<message>
<source>{above} of {count} matrices heterogeneous</source>
<translation>{above} von {count} Matrizen heterogen</translation>
</message>
<message>
<source>{before:.1f} % of the experts' scores become {now:.1f} %</source>
<translation>{before:.1f} % der Bewertungen der Experten werden zu {now:.1f} %</translation>
</message>
<message>
<source>{before:.1f} % of the experts' scores become {now:.1f} %, which is worse</source>
<translation>{before:.1f} % der Bewertungen der Experten werden zu {now:.1f} %, was schlechter ist</translation>
</message>
<message>
<source>{bytes} in {folder}</source>
<translation>{bytes} in {folder}</translation>
</message>
<message>
<source>{bytes} on the disk</source>
<translation>{bytes} auf dem Datenträger</translation>
</message>
<message>
<source>{count} experts at most</source>
<translation>höchstens {count} Experten</translation>
</message>
<message>
<source>{count} experts only</source>
<translation>nur {count} Experten</translation>
</message>
<message>
<source>{count} experts or more</source>
<translation>{count} Experten oder mehr</translation>
</message>
<message>
<source>{count} files and their index</source>
<translation>{count} Dateien und ihr Index</translation>
</message>
<message>
<source>{count} heterogeneous</source>
<translation>{count} heterogen</translation>
</message>
<message>
<source>{count} kept, {total}</source>
<translation>{count} behalten, {total}</translation>
</message>
<message>
<source>{count} matrices, treated alike whatever their γ</source>
<translation>{count} Matrizen, gleich behandelt, was auch ihr γ ist</translation>
</message>
<message>
<source>{count} merges are tried, and {more} more for the other half.</source>
<translation>{count} Merges werden erprobt, und {more} weitere für die andere Hälfte.</translation>
</message>
<message>
<source>{count} not exported will be lost.</source>
<translation>{count} nicht exportierte gehen verloren.</translation>
</message>
<message>
<source>{count} of the {above} near the pole of γ</source>
<translation>{count} der {above} nahe dem Pol von γ</translation>
</message>
<message>
<source>{count} of {all} directions of each; two random subspaces would share {share:.2f}.</source>
<translation>{count} von {all} Richtungen eines jeden; zwei zufällige Unterräume hätten {share:.2f} gemeinsam.</translation>
</message>
<message>
<source>{count} of {of} merges are tried, about {left} left.</source>
<translation>{count} von {of} Merges sind erprobt, noch etwa {left}.</translation>
</message>
<message>
<source>{count} of {of} merges are tried.</source>
<translation>{count} von {of} Merges sind erprobt.</translation>
</message>
<message>
<source>{count} of {total} tensors</source>
<translation>{count} von {total} Tensoren</translation>
</message>
<message>
<source>{count} outside the blocks are not shown</source>
<translation>{count} außerhalb der Blöcke werden nicht gezeigt</translation>
</message>
<message>
<source>{count} tasks × {each}</source>
<translation>{count} Aufgaben × {each}</translation>
</message>
<message>
<source>{count} tasks, {total} examples in all</source>
<translation>{count} Aufgaben, insgesamt {total} Beispiele</translation>
</message>
<message>
<source>{count} without γ</source>
<translation>{count} ohne γ</translation>
</message>
<message>
<source>{curve}: click to show or hide</source>
<translation>{curve}: zum Ein- oder Ausblenden klicken</translation>
</message>
<message>
<source>{curve}: show or hide</source>
<translation>{curve}: ein- oder ausblenden</translation>
</message>
<message>
<source>{done} of {total}</source>
<translation>{done} von {total}</translation>
</message>
<message>
<source>{done} of {total} tensors</source>
<translation>{done} von {total} Tensoren</translation>
</message>
<message>
<source>{experts} in {matrices}</source>
<translation>{experts} in {matrices}</translation>
</message>
<message>
<source>{experts}; every parameter, and the recipe as YAML</source>
<translation>{experts}; jeder Parameter, und das Rezept als YAML</translation>
</message>
<message>
<source>{figure} against norm</source>
<translation>{figure} gegen Norm</translation>
</message>
<message>
<source>{figure} by {of}</source>
<translation>{figure} nach {of}</translation>
</message>
<message>
<source>{folder} (default)</source>
<translation>{folder} (Standard)</translation>
</message>
<message>
<source>{freed} of {total} will be free.</source>
<translation>{freed} von {total} werden frei.</translation>
</message>
<message>
<source>{job}: begun.</source>
<translation>{job}: begonnen.</translation>
</message>
<message>
<source>{job}: cancelled after {time}.</source>
<translation>{job}: nach {time} abgebrochen.</translation>
</message>
<message>
<source>{job}: done after {time}.</source>
<translation>{job}: nach {time} fertig.</translation>
</message>
<message>
<source>{label} to try</source>
<translation>{label} zum Erproben</translation>
</message>
<message>
<source>{label}, before (W_pre)</source>
<translation>{label}, vorher (W_pre)</translation>
</message>
<message>
<source>{layer}: relative difference {difference}, cosine {cosine}</source>
<translation>{layer}: relativer Unterschied {difference}, Kosinus {cosine}</translation>
</message>
<message>
<source>{level} and above</source>
<translation>{level} und höher</translation>
</message>
<message>
<source>{merge} keeps {share:.0f} % of what the experts reach</source>
<translation>{merge} erhält {share:.0f} % dessen, was die Experten erreichen</translation>
</message>
<message>
<source>{merge}, chosen</source>
<translation>{merge}, gewählt</translation>
</message>
<message numerus="yes">
<source>{method} of %n experts into {base}</source>
<translation><numerusform>{method} von %n Experten in {base}</numerusform><numerusform>{method} von %n Experten in {base}</numerusform></translation>
</message>
<message>
<source>{metric} on {task}, {n} examples.</source>
<translation>{metric} bei {task}, {n} Beispiele.</translation>
</message>
<message>
<source>{model} is the base model</source>
<translation>{model} ist das Basismodell</translation>
</message>
<message>
<source>{model}, standard error</source>
<translation>{model}, Standardfehler</translation>
</message>
<message>
<source>{most} agree most ({high}), {least} least ({low}).</source>
<translation>{most} stimmen am meisten überein ({high}), {least} am wenigsten ({low}).</translation>
</message>
<message>
<source>{name}: {value} at step {step}</source>
<translation>{name}: {value} bei Schritt {step}</translation>
</message>
<message>
<source>{name}[*] – ACE Workbench</source>
<translation>{name}[*] – ACE Workbench</translation>
</message>
<message>
<source>{needed} are needed; {free} are free on that disk.</source>
<translation>{needed} werden gebraucht; {free} sind auf diesem Datenträger frei.</translation>
</message>
<message>
<source>{norm:.2f} × norm</source>
<translation>{norm:.2f} × Norm</translation>
</message>
<message>
<source>{note}; a mean is good to ± {mean:.2g}</source>
<translation>{note}; ein Mittel ist auf ± {mean:.2g} genau</translation>
</message>
<message>
<source>{one} and {other}</source>
<translation>{one} und {other}</translation>
</message>
<message>
<source>{own} of {all} estimates agree most with their own expert's inputs.</source>
<translation>{own} von {all} Schätzungen stimmen am meisten mit den Eingaben des eigenen Experten überein.</translation>
</message>
<message>
<source>{quantity} by task</source>
<translation>{quantity} nach Aufgaben</translation>
</message>
<message>
<source>{right} of {all} tasks go most of all to their own expert.</source>
<translation>{right} von {all} Aufgaben gehen am meisten zu ihrem eigenen Experten.</translation>
</message>
<message>
<source>{said}: {done} of {total}</source>
<translation>{said}: {done} von {total}</translation>
</message>
<message>
<source>{share:.0f} % · press to stop</source>
<translation>{share:.0f} % · zum Anhalten drücken</translation>
</message>
<message>
<source>{share:.1f} % of the energy in {i} directions</source>
<translation>{share:.1f} % der Energie in {i} Richtungen</translation>
</message>
<message>
<source>{share:.1f} % of the experts' scores, as before</source>
<translation>{share:.1f} % der Bewertungen der Experten, wie zuvor</translation>
</message>
<message>
<source>{share:.1f} % of the variance in {i} directions</source>
<translation>{share:.1f} % der Varianz in {i} Richtungen</translation>
</message>
<message>
<source>{symbol} at i = {i} is {value}</source>
<translation>{symbol} bei i = {i} ist {value}</translation>
</message>
<message>
<source>{time} left</source>
<translation>noch {time}</translation>
</message>
<message>
<source>{title} {y:.3g} at {x:.3g}</source>
<translation>{title} {y:.3g} bei {x:.3g}</translation>
</message>
<message>
<source>{total} in all. Tick what shall go.</source>
<translation>{total} insgesamt. Haken Sie an, was gelöscht werden soll.</translation>
</message>
<message>
<source>{unreliable}: the mean log energy is near zero, which says more of the scale of the weights than of the experts. Var ln E does not depend on that scale.</source>
<translation>{unreliable}: Die mittlere Log-Energie ist nahe null, was mehr über die Größenordnung der Gewichte sagt als über die Experten. Var ln E hängt nicht von ihr ab.</translation>
</message>
<message>
<source>{weights} (about {bytes})</source>
<translation>{weights} (etwa {bytes})</translation>
</message>
<message>
<source>|cos(before, after)|</source>
<translation>|cos(vorher, nachher)|</translation>
</message>
<message>
<source>|cosine| of the i-th singular vectors before and after refinement</source>
<translation>|Kosinus| der i-ten Singulärvektoren vor und nach der Verfeinerung</translation>
</message>
<message>
<source>|cosine| of the singular vectors of W_pre and of the merged change</source>
<translation>|Kosinus| der Singulärvektoren von W_pre und der Änderung durch den Merge</translation>
</message>
<message>
<source>Σσ² of the first i values as a share of all, with marks at 90, 95 and 99 %</source>
<translation>Σσ² der ersten i Werte als Anteil an allen, mit Marken bei 90, 95 und 99 %</translation>
</message>
<message>
<source>γ and what else concerns the whole model</source>
<translation>γ und was sonst das ganze Modell betrifft</translation>
</message>
<message>
<source>γ appears here once a base and two experts are open.</source>
<translation>γ erscheint hier, sobald eine Basis und zwei Experten offen sind.</translation>
</message>
<message>
<source>γ by block and role: a role lines up across the depth</source>
<translation>γ nach Block und Rolle: Eine Rolle steht über die Tiefe in einer Reihe</translation>
</message>
<message>
<source>γ near its pole</source>
<translation>γ nahe seinem Pol</translation>
</message>
<message>
<source>γ not known</source>
<translation>γ nicht bekannt</translation>
</message>
<message>
<source>γ of every layer along the model; drag the line to change τ</source>
<translation>γ jeder Schicht entlang des Modells; ziehen Sie die Linie, um τ zu ändern</translation>
</message>
<message>
<source>λᵢ / λ₁: how steep each spectrum is</source>
<translation>λᵢ / λ₁: wie steil jedes Spektrum ist</translation>
</message>
<message>
<source>λᵢ by their sum, largest first: the share of the variance along direction i</source>
<translation>λᵢ durch ihre Summe, das größte zuerst: der Anteil der Varianz entlang der Richtung i</translation>
</message>
<message>
<source>σᵢ / σ₁: the shape of each spectrum, whatever its size</source>
<translation>σᵢ / σ₁: die Gestalt jedes Spektrums, wie groß es auch ist</translation>
</message>
<message>
<source>σᵢ, largest first</source>
<translation>σᵢ, das größte zuerst</translation>
</message>
<message>
<source>σ₁ by the smallest σ above 10⁻⁷·σ₁; what lies below is rounding and not counted.</source>
<translation>σ₁ durch das kleinste σ über 10⁻⁷·σ₁; was darunter liegt, ist Rundung und zählt nicht.</translation>
</message>
<message>
<source>‖U₁ᵀU₂‖² / K: share of one expert's K leading left directions that lie in the other's; 0: none, 1: the same</source>
<translation>‖U₁ᵀU₂‖² / K: Anteil der K führenden linken Richtungen eines Experten, der in denen des anderen liegt; 0: keiner, 1: dieselben</translation>
</message>
<message>
<source>‖W‖² / σ₁²: the energy, counted in units of the strongest direction.</source>
<translation>‖W‖² / σ₁²: die Energie, gezählt in Einheiten der stärksten Richtung.</translation>
</message>
<message>
<source>‖W₁ − W₂‖ by the mean of ‖W₁ − W₀‖ and ‖W₂ − W₀‖, Frobenius norms: 0: equal, 2: opposite changes of the same size</source>
<translation>‖W₁ − W₂‖ durch das Mittel von ‖W₁ − W₀‖ und ‖W₂ − W₀‖, Frobenius-Normen: 0: gleich, 2: entgegengesetzte Änderungen gleicher Größe</translation>
</message>
<message>
<source>‖difference‖</source>
<translation>‖Unterschied‖</translation>
</message>
<message>
<source>‖first‖</source>
<translation>‖erster‖</translation>
</message>
<message>
<source>‖second‖</source>
<translation>‖zweiter‖</translation>
</message>
<message>
<source>‖ΔW‖ by the experts' mean: {caption}</source>
<translation>‖ΔW‖ durch das Mittel der Experten: {caption}</translation>
</message>
<message>
<source>‖ΔW‖², the squared Frobenius norm</source>
<translation>‖ΔW‖², die quadrierte Frobenius-Norm</translation>
</message>
<message>
<source>“{name}” does not end in .png, .svg or .pdf; choose one of the three.</source>
<translation>„{name}“ endet nicht auf .png, .svg oder .pdf; wählen Sie eines der drei.</translation>
</message>
<message>
<source>↺ outdated</source>
<translation>↺ veraltet</translation>
</message>
<message>
<source>◌ waiting</source>
<translation>◌ wartet</translation>
</message>
<message>
<source>✓ done</source>
<translation>✓ fertig</translation>
</message>
</context>
<context>
<name>engine</name>
<message>
<source> (the first is {token}, id {min})</source>
<translation> (das erste ist {token}, ID {min})</translation>
</message>
<message>
<source> Did you mean {close}?</source>
<translation> Meinten Sie {close}?</translation>
</message>
<message>
<source> Or choose to keep the base's tensor, or to leave the expert out of it: `non_finite` in a recipe, NaN and Inf in the window.</source>
<translation> Oder wählen Sie, den Tensor der Basis zu behalten oder den Experten dort wegzulassen: `non_finite` in einem Rezept, NaN und Inf im Fenster.</translation>
</message>
<message>
<source> and {NAMES_SHOWN} more</source>
<translation> und {NAMES_SHOWN} weitere</translation>
</message>
<message>
<source> and {len} more</source>
<translation> und {len} weitere</translation>
</message>
<message>
<source>0 is the base, 1 the expert. Goes between whole weights, as mergekit's slerp does.</source>
<translation>0 ist die Basis, 1 der Experte. Geht zwischen ganzen Gewichten, wie slerp in mergekit.</translation>
</message>
<message>
<source>0 is the first expert, 1 the second. Goes between the experts' changes to the base; mergekit goes between whole weights. Nearly parallel ones are interpolated linearly.</source>
<translation>0 ist der erste Experte, 1 der zweite. Geht zwischen den Änderungen der Experten gegenüber der Basis; mergekit geht zwischen ganzen Gewichten. Fast parallele werden linear interpoliert.</translation>
</message>
<message>
<source>ACE-Merging</source>
<translation>ACE-Merging</translation>
</message>
<message>
<source>About {human_bytes} for the largest tensor, `{tensor}`</source>
<translation>Etwa {human_bytes} für den größten Tensor, `{tensor}`</translation>
</message>
<message>
<source>About {human_bytes} for the merged model; {human_bytes2} free.</source>
<translation>Etwa {human_bytes} für das zusammengeführte Modell; {human_bytes2} frei.</translation>
</message>
<message>
<source>Above the cap</source>
<translation>Über der Obergrenze</translation>
</message>
<message>
<source>AdaMerging</source>
<translation>AdaMerging</translation>
</message>
<message>
<source>AdaRank</source>
<translation>AdaRank</translation>
</message>
<message>
<source>Added to every entry, as a share of the mean over the model: where all experts have less, they are averaged.</source>
<translation>Wird zu jedem Eintrag addiert, als Anteil am Mittel über das Modell: Wo alle Experten weniger haben, werden sie gemittelt.</translation>
</message>
<message>
<source>Added to the diagonals, as a share of their mean: decides along directions in which no expert had inputs.</source>
<translation>Wird zu den Diagonalen addiert, als Anteil an ihrem Mittel: entscheidet in Richtungen, in denen kein Experte Eingaben hatte.</translation>
</message>
<message>
<source>Adds the experts' changes and gives every direction of the sum the same strength, so that no expert dominates.</source>
<translation>Addiert die Änderungen der Experten und gibt jeder Richtung der Summe dieselbe Stärke, sodass kein Experte dominiert.</translation>
</message>
<message>
<source>Adds the experts' changes, and keeps the sum only in entries on which at least two of them rely.</source>
<translation>Addiert die Änderungen der Experten und behält die Summe nur in Einträgen, auf die mindestens zwei von ihnen angewiesen sind.</translation>
</message>
<message>
<source>Adds the experts' changes, and leaves a mask of the entries on which each expert relies, from which its model can be made again.</source>
<translation>Addiert die Änderungen der Experten und hinterlässt eine Maske der Einträge, auf die jeder Experte angewiesen ist; daraus lässt sich sein Modell wieder herstellen.</translation>
</message>
<message>
<source>Adds the experts' changes, and leaves for each expert the largest part of its difference from the merged model, which its task then has back.</source>
<translation>Addiert die Änderungen der Experten und hinterlässt für jeden Experten den größten Teil seines Unterschieds zum zusammengeführten Modell, den seine Aufgabe dann zurückbekommt.</translation>
</message>
<message>
<source>Adds the experts' changes, each tensor weighted by the inverse of its norm.</source>
<translation>Addiert die Änderungen der Experten; jeder Tensor zählt mit dem Kehrwert seiner Norm.</translation>
</message>
<message>
<source>Adds up what every expert learned on top of the base and scales the sum.</source>
<translation>Addiert, was jeder Experte über die Basis hinaus gelernt hat, und skaliert die Summe.</translation>
</message>
<message>
<source>Agreeing entries</source>
<translation>Übereinstimmende Einträge</translation>
</message>
<message>
<source>Agreeing experts</source>
<translation>Übereinstimmende Experten</translation>
</message>
<message>
<source>Alike below</source>
<translation>Gleich unterhalb</translation>
</message>
<message>
<source>All in {dtype}.</source>
<translation>Alle in {dtype}.</translation>
</message>
<message>
<source>Allow more, or keep that tensor from the base.</source>
<translation>Erlauben Sie mehr, oder behalten Sie diesen Tensor aus der Basis.</translation>
</message>
<message>
<source>Always: as published. Agreeing: a refinement that points against the sum of the task vectors is left out.</source>
<translation>Immer: wie veröffentlicht. Wenn einig: Eine Verfeinerung, die gegen die Summe der Aufgabenvektoren zeigt, wird weggelassen.</translation>
</message>
<message>
<source>An entry is the expert's where its importance is at least the median plus this many times the distance between the quartiles.</source>
<translation>Ein Eintrag ist der des Experten, wo seine Wichtigkeit mindestens so groß ist wie der Median plus dieses Vielfache des Abstands der Quartile.</translation>
</message>
<message>
<source>An entry that is no further than this from the base's is the expert's; one that is further moves towards it by this much.</source>
<translation>Ein Eintrag, der nicht weiter als dies von dem der Basis entfernt ist, ist der des Experten; ein weiter entfernter bewegt sich um so viel auf ihn zu.</translation>
</message>
<message>
<source>An expert relies on an entry where its change exceeds this times what the others make of the sum. The paper validates it for each expert; without data one value serves all.</source>
<translation>Ein Experte ist auf einen Eintrag angewiesen, wo seine Änderung dies mal das übersteigt, was die anderen aus der Summe machen. Der Artikel validiert es für jeden Experten; ohne Daten gilt ein Wert für alle.</translation>
</message>
<message>
<source>An expert takes part in an entry that it changed by more than this.</source>
<translation>Ein Experte nimmt an einem Eintrag teil, den er um mehr als dies geändert hat.</translation>
</message>
<message>
<source>Apple's GPUs are not used: they have no float64, in which the methods compute.</source>
<translation>Apples GPUs werden nicht benutzt: Sie kennen kein float64, in dem die Methoden rechnen.</translation>
</message>
<message>
<source>Arcee Fusion</source>
<translation>Arcee Fusion</translation>
</message>
<message>
<source>As Iso-C, but the weakest directions of the sum make room for directions that belong to single experts.</source>
<translation>Wie Iso-C, aber die schwächsten Richtungen der Summe machen Platz für Richtungen, die einzelnen Experten gehören.</translation>
</message>
<message>
<source>As RAM, and scales up what only one expert changed, the more it shares otherwise.</source>
<translation>Wie RAM, und verstärkt, was nur ein Experte geändert hat, umso mehr, je mehr er sonst mit anderen teilt.</translation>
</message>
<message>
<source>As the authors' CLIP vision script: every matrix is merged as it is stored, embeddings and visual.proj too; text_projection is averaged.</source>
<translation>Wie das CLIP-Skript der Autoren: Jede Matrix wird so zusammengeführt, wie sie gespeichert ist, auch Einbettungen und visual.proj; text_projection wird gemittelt.</translation>
</message>
<message>
<source>As the authors' GPT-2 script: every matrix is merged as it is stored, token and position embeddings too; the score head stays as in the base.</source>
<translation>Wie das GPT-2-Skript der Autoren: Jede Matrix wird so zusammengeführt, wie sie gespeichert ist, auch Token- und Positionseinbettungen; der Kopf score bleibt wie in der Basis.</translation>
</message>
<message>
<source>As the authors' Llama script: matrices are merged and norms averaged; embed_tokens and lm_head stay as in the base.</source>
<translation>Wie das Llama-Skript der Autoren: Matrizen werden zusammengeführt und Normschichten gemittelt; embed_tokens und lm_head bleiben wie in der Basis.</translation>
</message>
<message>
<source>As the authors' RoBERTa script: only dense matrices are merged; classifiers, biases, LayerNorms and embeddings stay as in the base.</source>
<translation>Wie das RoBERTa-Skript der Autoren: Nur dichte Matrizen werden zusammengeführt; Klassifikatoren, Bias, LayerNorms und Einbettungen bleiben wie in der Basis.</translation>
</message>
<message>
<source>Averaged: with the calibration data nothing went through this tensor in at least one expert.</source>
<translation>Gemittelt: Mit den Kalibrierungsdaten ging in mindestens einem Experten nichts durch diesen Tensor.</translation>
</message>
<message>
<source>BYOM</source>
<translation>BYOM</translation>
</message>
<message>
<source>Balanced signs</source>
<translation>Ausgeglichene Vorzeichen</translation>
</message>
<message>
<source>Base model</source>
<translation>Basismodell</translation>
</message>
<message>
<source>Batch</source>
<translation>Batch</translation>
</message>
<message>
<source>CART</source>
<translation>CART</translation>
</message>
<message>
<source>CLIP</source>
<translation>CLIP</translation>
</message>
<message>
<source>CUDA does not start.</source>
<translation>CUDA startet nicht.</translation>
</message>
<message>
<source>CUDA does not start: {first}.</source>
<translation>CUDA startet nicht: {first}.</translation>
</message>
<message>
<source>Calibration data</source>
<translation>Kalibrierungsdaten</translation>
</message>
<message>
<source>Cap δ</source>
<translation>Obergrenze δ</translation>
</message>
<message>
<source>Chance 1 − p with which each entry of a task vector is kept; kept entries are divided by it, so that the expected task vector stays the same. mergekit matches the norms of each tensor instead, which is biased for small tensors.</source>
<translation>Wahrscheinlichkeit 1 − p, mit der jeder Eintrag eines Aufgabenvektors behalten wird; behaltene Einträge werden durch sie geteilt, sodass der erwartete Aufgabenvektor derselbe bleibt. mergekit gleicht stattdessen die Norm jedes Tensors an, was bei kleinen Tensoren verzerrt.</translation>
</message>
<message>
<source>Changed above</source>
<translation>Geändert ab</translation>
</message>
<message>
<source>Chosen over</source>
<translation>Gewählt über</translation>
</message>
<message>
<source>Close other programs, or keep that tensor from the base.</source>
<translation>Schließen Sie andere Programme, oder behalten Sie diesen Tensor aus der Basis.</translation>
</message>
<message>
<source>Code of the model is neither run nor copied: {names}.</source>
<translation>Code des Modells wird weder ausgeführt noch kopiert: {names}.</translation>
</message>
<message>
<source>Coefficients</source>
<translation>Koeffizienten</translation>
</message>
<message>
<source>Column by column</source>
<translation>Spaltenweise</translation>
</message>
<message>
<source>Common share</source>
<translation>Gemeinsamer Anteil</translation>
</message>
<message>
<source>Compete over</source>
<translation>Wettbewerb über</translation>
</message>
<message>
<source>Computed in float64, as float32 would not be exact enough, or not be faster.</source>
<translation>In float64 berechnet, da float32 nicht genau genug oder nicht schneller wäre.</translation>
</message>
<message>
<source>Computed in {numbers}, which leaves {error} of the change</source>
<translation>Berechnet in {numbers}, mit einem Fehler von {error} der Änderung</translation>
</message>
<message>
<source>Concrete</source>
<translation>Concrete</translation>
</message>
<message>
<source>Configuration</source>
<translation>Konfiguration</translation>
</message>
<message>
<source>Consensus TA</source>
<translation>Consensus TA</translation>
</message>
<message>
<source>Cut-off D₀</source>
<translation>Grenzfrequenz D₀</translation>
</message>
<message>
<source>DARE with TIES</source>
<translation>DARE mit TIES</translation>
</message>
<message>
<source>DARE with task arithmetic</source>
<translation>DARE mit Aufgabenarithmetik</translation>
</message>
<message>
<source>DELLA with task arithmetic</source>
<translation>DELLA mit Aufgabenarithmetik</translation>
</message>
<message>
<source>DELLA-Merging</source>
<translation>DELLA-Merging</translation>
</message>
<message>
<source>Density</source>
<translation>Dichte</translation>
</message>
<message>
<source>Density after trimming</source>
<translation>Dichte nach dem Kürzen</translation>
</message>
<message>
<source>Density d</source>
<translation>Dichte d</translation>
</message>
<message>
<source>Density m</source>
<translation>Dichte m</translation>
</message>
<message>
<source>Density ρ</source>
<translation>Dichte ρ</translation>
</message>
<message>
<source>Departure</source>
<translation>Abweichung</translation>
</message>
<message>
<source>Disk</source>
<translation>Speicherplatz</translation>
</message>
<message>
<source>Distance from the base</source>
<translation>Abstand von der Basis</translation>
</message>
<message>
<source>Distance t</source>
<translation>Abstand t</translation>
</message>
<message>
<source>Divide by the norms</source>
<translation>Durch die Normen teilen</translation>
</message>
<message>
<source>Divide by the sum of all weights; otherwise the base counts as often as that sum.</source>
<translation>Durch die Summe aller Gewichte teilen; sonst zählt die Basis so oft wie diese Summe.</translation>
</message>
<message>
<source>Divide by the weights</source>
<translation>Durch die Gewichte teilen</translation>
</message>
<message>
<source>Divide each expert's Fisher information by its norm over the whole model, so that none counts more because its answers are less certain.</source>
<translation>Die Fisher-Information jedes Experten durch ihre Norm über das ganze Modell teilen, sodass keiner mehr zählt, weil seine Antworten weniger sicher sind.</translation>
</message>
<message>
<source>Divide the sum by the experts' weights, which makes it their mean.</source>
<translation>Die Summe durch die Gewichte der Experten teilen; so wird sie ihr Mittel.</translation>
</message>
<message>
<source>Drops a random part of every expert's changes, scales up the rest to make up for it, and adds them.</source>
<translation>Lässt einen zufälligen Teil der Änderungen jedes Experten weg, vergrößert den Rest zum Ausgleich und addiert ihn.</translation>
</message>
<message>
<source>Drops a random part of every expert's changes, scales up the rest, and merges them by sign election as TIES does.</source>
<translation>Lässt einen zufälligen Teil der Änderungen jedes Experten weg, vergrößert den Rest und führt ihn durch Vorzeichenwahl zusammen wie TIES.</translation>
</message>
<message>
<source>Drops changes at random, small ones more often than large ones, scales up what is left, and adds it.</source>
<translation>Lässt Änderungen zufällig weg, kleine öfter als große, vergrößert den Rest und addiert ihn.</translation>
</message>
<message>
<source>Drops changes at random, small ones more often than large ones, scales up what is left, and merges it by sign election.</source>
<translation>Lässt Änderungen zufällig weg, kleine öfter als große, vergrößert den Rest und führt ihn durch Vorzeichenwahl zusammen.</translation>
</message>
<message>
<source>Duplicates</source>
<translation>Doppelte</translation>
</message>
<message>
<source>EMR-Merging</source>
<translation>EMR-Merging</translation>
</message>
<message>
<source>ESM</source>
<translation>ESM</translation>
</message>
<message>
<source>Entries stay where at least as many experts rely on them; 0 keeps every entry. With more than there are experts nothing stays.</source>
<translation>Einträge bleiben, wo mindestens so viele Experten auf sie angewiesen sind; 0 behält jeden Eintrag. Bei mehr, als es Experten gibt, bleibt nichts.</translation>
</message>
<message>
<source>Equal to the base in every tensor that is merged; remove it from the list.</source>
<translation>Gleicht der Basis in jedem Tensor, der zusammengeführt wird; entfernen Sie ihn aus der Liste.</translation>
</message>
<message>
<source>Essential subspaces: keeps of every expert's change the directions in which its outputs change most on its own data, and makes those of all experts orthogonal to each other.</source>
<translation>Wesentliche Unterräume: behält von der Änderung jedes Experten die Richtungen, in denen sich seine Ausgaben auf seinen eigenen Daten am meisten ändern, und macht die aller Experten orthogonal zueinander.</translation>
</message>
<message>
<source>Estimated from {known} of {total} matrices.</source>
<translation>Geschätzt aus {known} von {total} Matrizen.</translation>
</message>
<message>
<source>Estimates from the experts' weight changes which inputs each expert relies on, and solves for the one matrix that serves all of them; needs no data.</source>
<translation>Schätzt aus den Gewichtsänderungen der Experten, auf welche Eingaben jeder angewiesen ist, und löst nach der einen Matrix auf, die allen dient; braucht keine Daten.</translation>
</message>
<message>
<source>Every coefficient to begin with.</source>
<translation>Jeder Koeffizient am Anfang.</translation>
</message>
<message>
<source>Every coefficient; of the variant adamerging to begin with.</source>
<translation>Jeder Koeffizient; bei der Variante AdaMerging am Anfang.</translation>
</message>
<message>
<source>Every expert has inputs.</source>
<translation>Jeder Experte hat Eingaben.</translation>
</message>
<message>
<source>Every shared tensor has the base's shape.</source>
<translation>Jeder gemeinsame Tensor hat die Form der Basis.</translation>
</message>
<message>
<source>Every tensor of the base is there.</source>
<translation>Jeder Tensor der Basis ist da.</translation>
</message>
<message>
<source>Expert left out</source>
<translation>Experte weggelassen</translation>
</message>
<message>
<source>Experts at a time K</source>
<translation>Experten auf einmal K</translation>
</message>
<message>
<source>Experts that are used for each input of a layer.</source>
<translation>Experten, die für jede Eingabe einer Schicht benutzt werden.</translation>
</message>
<message>
<source>FR-Merging</source>
<translation>FR-Merging</translation>
</message>
<message>
<source>FR-Merging, and of each expert the largest entries, rescaled, which a router adds for the examples that it gives to that expert.</source>
<translation>FR-Merging, und von jedem Experten die größten Einträge, reskaliert, die ein Router für die Beispiele addiert, die er diesem Experten gibt.</translation>
</message>
<message>
<source>FREE-Merging</source>
<translation>FREE-Merging</translation>
</message>
<message>
<source>Factor beside the method's own T/2, where T counts the experts that changed the tensor; one expert alone is halved.</source>
<translation>Faktor neben dem T/2 der Methode, wobei T die Experten zählt, die den Tensor geändert haben; ein Experte allein wird halbiert.</translation>
</message>
<message>
<source>Factor on the experts' low-rank differences; 0 gives the mean.</source>
<translation>Faktor auf den niedrigrangigen Unterschieden der Experten; 0 ergibt das Mittel.</translation>
</message>
<message>
<source>Factor on the merged matrix, usually validated in (0, 3]. Applies to matrices: everything else is averaged as it is.</source>
<translation>Faktor auf der zusammengeführten Matrix, meist in (0, 3] validiert. Gilt für Matrizen: Alles andere wird gemittelt, wie es ist.</translation>
</message>
<message>
<source>Factor on the merged matrix; everything that is no matrix is averaged as it is.</source>
<translation>Faktor auf der zusammengeführten Matrix; was keine Matrix ist, wird gemittelt, wie es ist.</translation>
</message>
<message>
<source>Factor on the merged matrix; the paper searches it. Biases are averaged; the published code appends them to the matrices.</source>
<translation>Faktor auf der zusammengeführten Matrix; der Artikel sucht ihn. Bias werden gemittelt; der veröffentlichte Code hängt sie an die Matrizen an.</translation>
</message>
<message>
<source>Factor on the merged matrix; the paper's are 0.6 to 0.9.</source>
<translation>Faktor auf der zusammengeführten Matrix; im Artikel 0,6 bis 0,9.</translation>
</message>
<message>
<source>Factor on the merged matrix; the usual value without validation is 1. Applies to matrices: everything else is averaged as it is.</source>
<translation>Faktor auf der zusammengeführten Matrix; der übliche Wert ohne Validierung ist 1. Gilt für Matrizen: Alles andere wird gemittelt, wie es ist.</translation>
</message>
<message>
<source>Factor on the merged task vector before it is added to the base.</source>
<translation>Faktor auf dem zusammengeführten Aufgabenvektor, bevor er zur Basis addiert wird.</translation>
</message>
<message>
<source>Factor on the merged task vector.</source>
<translation>Faktor auf dem zusammengeführten Aufgabenvektor.</translation>
</message>
<message>
<source>Factor on the merged task vector; the paper searches 0.8 to 1.3 on validation data.</source>
<translation>Faktor auf dem zusammengeführten Aufgabenvektor; der Artikel sucht 0,8 bis 1,3 auf Validierungsdaten.</translation>
</message>
<message>
<source>Factor on the merged task vector; the paper's value without validation is 1.</source>
<translation>Faktor auf dem zusammengeführten Aufgabenvektor; der Wert des Artikels ohne Validierung ist 1.</translation>
</message>
<message>
<source>Factor on the off-diagonal entries of each Gram matrix; 0: every input by itself.</source>
<translation>Faktor auf den Einträgen außerhalb der Diagonale jeder Gram-Matrix; 0: jeder Eingang für sich.</translation>
</message>
<message>
<source>Factor on the sum of the task vectors in the merged model, which alone is task arithmetic. The experts' models do not depend on it, but for rounding: 1 and a float32 output keep them sharpest.</source>
<translation>Faktor auf der Summe der Aufgabenvektoren im zusammengeführten Modell, das allein Aufgabenarithmetik ist. Die Modelle der Experten hängen nicht von ihm ab, außer durch Rundung: 1 und eine Ausgabe in float32 halten sie am genauesten.</translation>
</message>
<message>
<source>Factor on the sum of the task vectors in the merged model.</source>
<translation>Faktor auf der Summe der Aufgabenvektoren im zusammengeführten Modell.</translation>
</message>
<message>
<source>Factor on the sum of the task vectors outside of the MLP blocks.</source>
<translation>Faktor auf der Summe der Aufgabenvektoren außerhalb der MLP-Blöcke.</translation>
</message>
<message>
<source>Factor on the sum of the task vectors.</source>
<translation>Faktor auf der Summe der Aufgabenvektoren.</translation>
</message>
<message>
<source>Factor on the sum of the task vectors; 1/T for T experts gives their mean.</source>
<translation>Faktor auf der Summe der Aufgabenvektoren; 1/T ergibt bei T Experten ihr Mittel.</translation>
</message>
<message>
<source>Factor on the sum of what is kept. The paper's text says average, its formula sum.</source>
<translation>Faktor auf der Summe dessen, was behalten wird. Der Text des Artikels sagt Mittel, seine Formel Summe.</translation>
</message>
<message>
<source>Features between the two matrices of each task's correction.</source>
<translation>Merkmale zwischen den beiden Matrizen der Korrektur jeder Aufgabe.</translation>
</message>
<message>
<source>Files</source>
<translation>Dateien</translation>
</message>
<message>
<source>Finds the direction nearest to those of all experts, and gives it their mean norm.</source>
<translation>Findet die Richtung, die denen aller Experten am nächsten ist, und gibt ihr deren mittlere Norm.</translation>
</message>
<message>
<source>Fine-tunes of this base: ‖ΔW‖ is {range} of ‖W‖.</source>
<translation>Feinabstimmungen dieser Basis: ‖ΔW‖ ist {range} von ‖W‖.</translation>
</message>
<message>
<source>Fisher averaging</source>
<translation>Fisher-Mittelung</translation>
</message>
<message>
<source>Floor</source>
<translation>Untergrenze</translation>
</message>
<message>
<source>For LoRA experts: expresses all changes of a layer in one common basis, and merges their coordinates there as TIES does.</source>
<translation>Für LoRA-Experten: drückt alle Änderungen einer Schicht in einer gemeinsamen Basis aus und führt ihre Koordinaten dort zusammen wie TIES.</translation>
</message>
<message>
<source>For LoRA experts: expresses all changes of a layer in one common basis, drops a random part of their coordinates, and merges the rest by sign election.</source>
<translation>Für LoRA-Experten: drückt alle Änderungen einer Schicht in einer gemeinsamen Basis aus, lässt einen zufälligen Teil ihrer Koordinaten weg und führt den Rest durch Vorzeichenwahl zusammen.</translation>
</message>
<message>
<source>Found</source>
<translation>Gefunden</translation>
</message>
<message>
<source>Free some space there, or choose an output folder on another disk.</source>
<translation>Schaffen Sie dort Platz, oder wählen Sie einen Ausgabeordner auf einem anderen Datenträger.</translation>
</message>
<message>
<source>Frequencies below this share of the highest are removed, by their distance to zero frequency in both directions; 0 removes nothing. The paper leaves the value open, and its code measures it from another point, which removes next to nothing from square matrices.</source>
<translation>Frequenzen unter diesem Anteil an der höchsten werden entfernt, nach ihrem Abstand von der Frequenz null in beiden Richtungen; 0 entfernt nichts. Der Artikel lässt den Wert offen, und sein Code misst ihn von einem anderen Punkt, was aus quadratischen Matrizen fast nichts entfernt.</translation>
</message>
<message>
<source>FusionBench</source>
<translation>FusionBench</translation>
</message>
<message>
<source>GPT-2</source>
<translation>GPT-2</translation>
</message>
<message>
<source>Goes along the arc from the base's weights to those of one expert.</source>
<translation>Geht entlang des Bogens von den Gewichten der Basis zu denen eines Experten.</translation>
</message>
<message>
<source>Goes from the change of one expert to that of another along the arc between them.</source>
<translation>Geht entlang des Bogens von der Änderung eines Experten zu der eines anderen.</translation>
</message>
<message>
<source>Has a tokenizer, but the base has none to compare it with or to export. Copy the right tokenizer files into the base's folder.</source>
<translation>Hat einen Tokenizer, aber die Basis hat keinen, mit dem er verglichen oder der exportiert werden könnte. Kopieren Sie die richtigen Tokenizer-Dateien in den Ordner der Basis.</translation>
</message>
<message>
<source>Has its own {listing}, tied to the embedding in the base: the merged model stays tied, without the expert's own head.</source>
<translation>Hat eigene {listing}, in der Basis an die Einbettung gebunden: Das zusammengeführte Modell bleibt gebunden, ohne den eigenen Kopf des Experten.</translation>
</message>
<message>
<source>Has no config.json: taken to be built as the base is.</source>
<translation>Hat keine config.json: gilt als gebaut wie die Basis.</translation>
</message>
<message>
<source>Has no part {listing} of the base: combined without this expert.</source>
<translation>Hat keinen Teil {listing} der Basis: ohne diesen Experten kombiniert.</translation>
</message>
<message>
<source>Has {listing}, which the base lacks: saved in heads/, not merged.</source>
<translation>Hat {listing}, was der Basis fehlt: in heads/ gespeichert, nicht zusammengeführt.</translation>
</message>
<message>
<source>Have the weights sum to 1; otherwise they also scale the length of the result.</source>
<translation>Die Gewichte auf die Summe 1 bringen; sonst skalieren sie auch die Länge des Ergebnisses.</translation>
</message>
<message>
<source>Heads</source>
<translation>Köpfe</translation>
</message>
<message>
<source>Holds GGUF files. Merging needs the original safetensors weights instead.</source>
<translation>Enthält GGUF-Dateien. Zum Zusammenführen braucht es die ursprünglichen Gewichte in safetensors.</translation>
</message>
<message>
<source>Holds a PyTorch pickle ({listing}).</source>
<translation>Enthält einen PyTorch-Pickle ({listing}).</translation>
</message>
<message>
<source>Holds a part of the base only: {len} tensors, {listing} among them, are combined without it, and stay the base's where no expert has them.</source>
<translation>Hat nur einen Teil der Basis: {len} Tensoren, darunter {listing}, werden ohne ihn kombiniert und bleiben die der Basis, wo kein Experte sie hat.</translation>
</message>
<message>
<source>Holds both {single} and {index}; {single2} is read, as transformers does.</source>
<translation>Enthält {single} und {index}; gelesen wird {single2}, wie in transformers.</translation>
</message>
<message>
<source>Holds more than the base: {len} tensors, {listing} among them, are saved in heads/, not merged. To merge these, take such a base.</source>
<translation>Hat mehr als die Basis: {len} Tensoren, darunter {listing}, werden in heads/ gespeichert, nicht zusammengeführt. Um sie zusammenzuführen, nehmen Sie eine Basis, die sie hat.</translation>
</message>
<message>
<source>Holds only weights ({listing}) {sentence}</source>
<translation>Enthält nur Gewichte ({listing}) {sentence}</translation>
</message>
<message>
<source>Holds several models: {listing}. Open one of the files.</source>
<translation>Enthält mehrere Modelle: {listing}. Öffnen Sie eine der Dateien.</translation>
</message>
<message>
<source>How each expert's difference from the merged model is compressed. low rank: of every matrix the leading singular triplets, other tensors whole; entries: the largest of the whole model.</source>
<translation>Wie der Unterschied jedes Experten zum zusammengeführten Modell komprimiert wird. Niedriger Rang: von jeder Matrix die führenden Singulärtripel, andere Tensoren ganz; Einträge: die größten des ganzen Modells.</translation>
</message>
<message>
<source>How far a step moves the logits of the masks (plain gradient descent; gradients of masks are very small).</source>
<translation>Wie weit ein Schritt die Logits der Masken bewegt (einfacher Gradientenabstieg; Gradienten von Masken sind sehr klein).</translation>
</message>
<message>
<source>How far a step moves the values (Adam).</source>
<translation>Wie weit ein Schritt die Werte bewegt (Adam).</translation>
</message>
<message>
<source>How much entries that only one expert changed grow; 0 gives RAM.</source>
<translation>Wie sehr Einträge wachsen, die nur ein Experte geändert hat; 0 ergibt RAM.</translation>
</message>
<message>
<source>How much the base itself counts beside the experts; 0: not at all.</source>
<translation>Wie viel die Basis selbst neben den Experten zählt; 0: gar nicht.</translation>
</message>
<message>
<source>How often the mask is moved; 0 leaves it as it begins, which is task arithmetic.</source>
<translation>Wie oft die Maske bewegt wird; 0 lässt sie, wie sie beginnt, was Aufgabenarithmetik ist.</translation>
</message>
<message>
<source>How often the masks are moved; 0: the largest changes alone, without any data.</source>
<translation>Wie oft die Masken bewegt werden; 0: nur die größten Änderungen, ganz ohne Daten.</translation>
</message>
<message>
<source>How often the values are moved; 0 leaves them as they begin.</source>
<translation>Wie oft die Werte bewegt werden; 0 lässt sie, wie sie beginnen.</translation>
</message>
<message>
<source>How strongly a step draws masks towards 0: λ times the learning rate.</source>
<translation>Wie stark ein Schritt Masken gegen 0 zieht: λ mal die Lernrate.</translation>
</message>
<message>
<source>Inputs</source>
<translation>Eingaben</translation>
</message>
<message>
<source>Inputs of each task in a step.</source>
<translation>Eingaben jeder Aufgabe in einem Schritt.</translation>
</message>
<message>
<source>Intel's GPUs are not used: nothing was tried on them.</source>
<translation>Intels GPUs werden nicht benutzt: Auf ihnen wurde nichts erprobt.</translation>
</message>
<message>
<source>Interpolate each column, which is a vector along the first dimension, by its own angle; goes before Row by row.</source>
<translation>Jede Spalte, einen Vektor entlang der ersten Dimension, mit ihrem eigenen Winkel interpolieren; geht vor Zeilenweise.</translation>
</message>
<message>
<source>Interpolate each row, which is a vector along the last dimension, by its own angle; otherwise the tensor as one vector.</source>
<translation>Jede Zeile, einen Vektor entlang der letzten Dimension, mit ihrem eigenen Winkel interpolieren; sonst den Tensor als einen Vektor.</translation>
</message>
<message>
<source>Is of family {plain}, the base of {plain2}: equal shapes may mean different things.</source>
<translation>Ist von der Familie {plain}, die Basis von {plain2}: Gleiche Formen können Verschiedenes bedeuten.</translation>
</message>
<message>
<source>Iso-C</source>
<translation>Iso-C</translation>
</message>
<message>
<source>Iso-CTS</source>
<translation>Iso-CTS</translation>
</message>
<message>
<source>It cannot be read: {strerror}.</source>
<translation>Es kann nicht gelesen werden: {strerror}.</translation>
</message>
<message>
<source>It is not read unless you agree, because a pickle can run code. It can be converted to safetensors once, and nothing in it is run for that.</source>
<translation>Er wird nur mit Ihrer Zustimmung gelesen, weil ein Pickle Code ausführen kann. Er kann einmal in safetensors umgewandelt werden, und dabei wird nichts darin ausgeführt.</translation>
</message>
<message>
<source>Iterations</source>
<translation>Iterationen</translation>
</message>
<message>
<source>Its config and side files go into the output.</source>
<translation>Seine Konfiguration und Nebendateien kommen in die Ausgabe.</translation>
</message>
<message>
<source>Its modules have their places in this model.</source>
<translation>Seine Module haben ihre Plätze in diesem Modell.</translation>
</message>
<message>
<source>Its task vector has {share}, the median expert's {percent}; check that it was tuned from this base, or give it less weight.</source>
<translation>Sein Aufgabenvektor hat {share}, der des mittleren Experten {percent}; prüfen Sie, ob er aus dieser Basis feinabgestimmt wurde, oder geben Sie ihm weniger Gewicht.</translation>
</message>
<message>
<source>Its task vector has {share}, too far for a fine-tune; probably it was tuned from another base.</source>
<translation>Sein Aufgabenvektor hat {share}, zu weit für eine Feinabstimmung; wahrscheinlich wurde er aus einer anderen Basis feinabgestimmt.</translation>
</message>
<message>
<source>Its {named} differ{len} from the base's: {plain}{len2}. The output has the base's config, under which this expert computes something else.</source>
<translation>Von der Basis verschieden: {named}. {plain}{len2}. Die Ausgabe hat die Konfiguration der Basis, unter der dieser Experte etwas anderes berechnet.</translation>
</message>
<message>
<source>Karcher mean</source>
<translation>Karcher-Mittel</translation>
</message>
<message>
<source>Keep</source>
<translation>Behalten</translation>
</message>
<message>
<source>Keeps the few largest changes of every expert over the whole model, and averages them where several experts keep the same entry. The variant without data.</source>
<translation>Behält die wenigen größten Änderungen jedes Experten über das ganze Modell und mittelt sie, wo mehrere Experten denselben Eintrag behalten. Die Variante ohne Daten.</translation>
</message>
<message>
<source>Keeps the largest changes of every expert, lets them elect a sign for every entry, and averages those that agree with it.</source>
<translation>Behält die größten Änderungen jedes Experten, lässt sie für jeden Eintrag ein Vorzeichen wählen und mittelt die, die ihm entsprechen.</translation>
</message>
<message>
<source>Keeps the leading singular vectors of every expert's change and rotates them so that experts do not interfere.</source>
<translation>Behält die führenden Singulärvektoren der Änderung jedes Experten und dreht sie so, dass die Experten sich nicht stören.</translation>
</message>
<message>
<source>Keeps the strongest singular directions of every expert's change, scales them up to its former strength, and averages.</source>
<translation>Behält die stärksten Singulärrichtungen der Änderung jedes Experten, bringt sie auf die frühere Stärke und mittelt.</translation>
</message>
<message>
<source>Keeps what only one expert changed, and averages what several changed.</source>
<translation>Behält, was nur ein Experte geändert hat, und mittelt, was mehrere geändert haben.</translation>
</message>
<message>
<source>Kept per expert, in heads/, for {names}: {own}.</source>
<translation>Für jeden Experten behalten, in heads/, für {names}: {own}.</translation>
</message>
<message>
<source>Kept η (%)</source>
<translation>Behaltenes η (%)</translation>
</message>
<message>
<source>KnOTS with DARE-TIES</source>
<translation>KnOTS mit DARE-TIES</translation>
</message>
<message>
<source>KnOTS with TIES</source>
<translation>KnOTS mit TIES</translation>
</message>
<message>
<source>Labelled inputs of each task; every step looks at all of them.</source>
<translation>Eingaben jeder Aufgabe mit Labels; jeder Schritt betrachtet alle.</translation>
</message>
<message>
<source>Lacks {listing}, outside of the blocks: combined without this expert.</source>
<translation>Es fehlt {listing} außerhalb der Blöcke: ohne diesen Experten kombiniert.</translation>
</message>
<message>
<source>Largest condition number</source>
<translation>Größte Konditionszahl</translation>
</message>
<message>
<source>Largest merged by experts' norm</source>
<translation>Größte Norm des Merges durch die der Experten</translation>
</message>
<message>
<source>Largest refinement ratio</source>
<translation>Größtes Verfeinerungsverhältnis</translation>
</message>
<message>
<source>Largest ridge mass Σ εₜ</source>
<translation>Größte Ridge-Masse Σ εₜ</translation>
</message>
<message>
<source>Leading right-singular vectors on which an input is seen, to find its expert.</source>
<translation>Führende rechte Singulärvektoren, auf denen eine Eingabe betrachtet wird, um ihren Experten zu finden.</translation>
</message>
<message>
<source>Learned with the tasks' data</source>
<translation>Mit den Daten der Aufgaben gelernt</translation>
</message>
<message>
<source>Learning rate</source>
<translation>Lernrate</translation>
</message>
<message>
<source>Learns from a few labelled inputs which entries each expert's task needs, each expert by itself, and averages their changes where several need the same.</source>
<translation>Lernt aus wenigen Eingaben mit Labels, welche Einträge die Aufgabe jedes Experten braucht, jeden Experten für sich, und mittelt die Änderungen, wo mehrere dieselben brauchen.</translation>
</message>
<message>
<source>Learns how much of every expert goes into each layer, so that the merged model is sure of its answers to inputs of all tasks; no labels.</source>
<translation>Lernt, wie viel von jedem Experten in jede Schicht geht, sodass sich das zusammengeführte Modell bei Eingaben aller Aufgaben seiner Antworten sicher ist; ohne Labels.</translation>
</message>
<message>
<source>Learns one mask for the changes of all experts, in which they disturb each other least, so that the merged model is sure of its answers; no labels.</source>
<translation>Lernt eine Maske für die Änderungen aller Experten, in der sie sich am wenigsten stören, sodass sich das zusammengeführte Modell seiner Antworten sicher ist; ohne Labels.</translation>
</message>
<message>
<source>Learns which singular directions of each expert's change to keep, and how much of each expert, so that the merged model is sure of its answers; no labels.</source>
<translation>Lernt, welche Singulärrichtungen der Änderung jedes Experten bleiben, und wie viel von jedem Experten, sodass sich das zusammengeführte Modell seiner Antworten sicher ist; ohne Labels.</translation>
</message>
<message>
<source>Least interference</source>
<translation>Geringste Störung</translation>
</message>
<message>
<source>Leaves modules for each task, which it must be told.</source>
<translation>Hinterlässt Module für jede Aufgabe, die man angeben muss.</translation>
</message>
<message>
<source>Leaves modules, and a router that finds the expert of each example by itself.</source>
<translation>Hinterlässt Module und einen Router, der den Experten jedes Beispiels selbst findet.</translation>
</message>
<message>
<source>Leaves modules: who says the task has that expert's model.</source>
<translation>Hinterlässt Module: Wer die Aufgabe angibt, hat das Modell dieses Experten.</translation>
</message>
<message>
<source>Leaves out each tensor's largest changes and its smallest, and merges what every expert has in between by sign election as TIES does.</source>
<translation>Lässt die größten und die kleinsten Änderungen jedes Tensors weg und führt, was jeder Experte dazwischen hat, durch Vorzeichenwahl zusammen wie TIES.</translation>
</message>
<message>
<source>Leaves out each tensor's largest changes, which are outliers, and its smallest, which are noise, and adds what every expert has in between.</source>
<translation>Lässt die größten Änderungen jedes Tensors weg, die Ausreißer sind, und die kleinsten, die Rauschen sind, und addiert, was jeder Experte dazwischen hat.</translation>
</message>
<message>
<source>Limit α</source>
<translation>Grenze α</translation>
</message>
<message>
<source>Links that lead out of the model's folder are not copied: {names}.</source>
<translation>Verknüpfungen, die aus dem Ordner des Modells hinausführen, werden nicht kopiert: {names}.</translation>
</message>
<message>
<source>LoRA adapter</source>
<translation>LoRA-Adapter</translation>
</message>
<message>
<source>Localize-and-Stitch</source>
<translation>Localize-and-Stitch</translation>
</message>
<message>
<source>Localize-and-Stitch, few-shot</source>
<translation>Localize-and-Stitch, mit wenigen Beispielen</translation>
</message>
<message>
<source>Looks for the matrix that interferes least with what each expert does on its own inputs, whose span it reads off the experts' changes; needs no data.</source>
<translation>Sucht die Matrix, die am wenigsten mit dem stört, was jeder Experte auf seinen eigenen Eingaben tut; deren Spann liest sie aus den Änderungen der Experten ab; braucht keine Daten.</translation>
</message>
<message>
<source>Lost workers that were replaced: {lost}.</source>
<translation>Verlorene Arbeiter, die ersetzt wurden: {lost}.</translation>
</message>
<message>
<source>Lowest refinement cosine</source>
<translation>Kleinster Verfeinerungskosinus</translation>
</message>
<message>
<source>MLP</source>
<translation>MLP</translation>
</message>
<message>
<source>Mask threshold</source>
<translation>Schwelle der Maske</translation>
</message>
<message>
<source>Matrices of linear modules are merged, oriented outputs × inputs; embeddings, norms, biases and convolutions are averaged, unless the method goes entry by entry: then it merges them, too.</source>
<translation>Matrizen linearer Module werden zusammengeführt, ausgerichtet als Ausgänge × Eingänge; Einbettungen, Normschichten, Bias und Faltungen werden gemittelt, außer die Methode geht Eintrag für Eintrag vor: Dann führt sie auch diese zusammen.</translation>
</message>
<message>
<source>Mean chance 1 − p with which an entry is kept; kept ones are divided by their own.</source>
<translation>Mittlere Wahrscheinlichkeit 1 − p, mit der ein Eintrag behalten wird; behaltene werden durch ihre eigene geteilt.</translation>
</message>
<message>
<source>Mean log energy nearest to zero</source>
<translation>Mittlere Log-Energie am nächsten bei null</translation>
</message>
<message>
<source>Means and arcs</source>
<translation>Mittel und Bögen</translation>
</message>
<message>
<source>Memory</source>
<translation>Arbeitsspeicher</translation>
</message>
<message>
<source>Merged change: {ratio}; {over}.</source>
<translation>Änderung durch den Merge: {ratio}; {over}.</translation>
</message>
<message>
<source>Merged: {listing}. Under Heads in the method's options (heads: keep) every expert's own is saved instead.</source>
<translation>Zusammengeführt: {listing}. Unter Köpfe in den Optionen der Methode (heads: keep) wird stattdessen der eigene jedes Experten gespeichert.</translation>
</message>
<message>
<source>Merges as TSV-Merging does, and leaves each expert its leading singular triplets, from which its model can be made again.</source>
<translation>Führt zusammen wie TSV-Merging und lässt jedem Experten seine führenden Singulärtripel, aus denen sein Modell wieder hergestellt werden kann.</translation>
</message>
<message>
<source>Merges into one task vector of elected signs and largest magnitudes, and leaves a mask and a scale from which each expert's model can be made again.</source>
<translation>Führt zu einem Aufgabenvektor aus gewählten Vorzeichen und größten Beträgen zusammen und hinterlässt eine Maske und eine Skala, aus denen sich das Modell jedes Experten wieder herstellen lässt.</translation>
</message>
<message>
<source>Method</source>
<translation>Methode</translation>
</message>
<message>
<source>Model Breadcrumbs</source>
<translation>Model Breadcrumbs</translation>
</message>
<message>
<source>Model Breadcrumbs with TIES</source>
<translation>Model Breadcrumbs mit TIES</translation>
</message>
<message>
<source>Model Stock</source>
<translation>Model Stock</translation>
</message>
<message>
<source>Modules</source>
<translation>Module</translation>
</message>
<message>
<source>Multi-SLERP</source>
<translation>Multi-SLERP</translation>
</message>
<message>
<source>NAN</source>
<translation>NAN</translation>
</message>
<message>
<source>Names</source>
<translation>Namen</translation>
</message>
<message>
<source>NearSwap</source>
<translation>NearSwap</translation>
</message>
<message>
<source>Needs a few labelled inputs of each expert's task: tasks with calibration data that have labels. Learns in steps, each as long as a training step; leaves plain weights.</source>
<translation>Braucht wenige Eingaben mit Labels zur Aufgabe jedes Experten: Aufgaben mit Kalibrierungsdaten, die Labels haben. Lernt in Schritten, jeder so lang wie ein Trainingsschritt; hinterlässt einfache Gewichte.</translation>
</message>
<message>
<source>Needs inputs of each expert's task: tasks with calibration data, without labels.</source>
<translation>Braucht Eingaben zur Aufgabe jedes Experten: Aufgaben mit Kalibrierungsdaten, ohne Labels.</translation>
</message>
<message>
<source>Needs inputs of each expert's task: tasks with calibration data, without labels. Learns in many steps, each as long as a training step of one model; leaves plain weights.</source>
<translation>Braucht Eingaben zur Aufgabe jedes Experten: Aufgaben mit Kalibrierungsdaten, ohne Labels. Lernt in vielen Schritten, jeder so lang wie ein Trainingsschritt eines Modells; hinterlässt einfache Gewichte.</translation>
</message>
<message>
<source>Needs inputs of each expert's task: tasks with calibration data, without labels. Takes gradients, which is several times slower than inputs alone.</source>
<translation>Braucht Eingaben zur Aufgabe jedes Experten: Aufgaben mit Kalibrierungsdaten, ohne Labels. Bildet Gradienten, was mehrmals so lange dauert wie Eingaben allein.</translation>
</message>
<message>
<source>No config.json: roles are read off the tensors' names, and the output will have no config either. Open the model's folder if there is one.</source>
<translation>Keine config.json: Rollen werden aus den Namen der Tensoren gelesen, und auch die Ausgabe wird keine Konfiguration haben. Öffnen Sie den Ordner des Modells, wenn es einen gibt.</translation>
</message>
<message>
<source>No entry varies enough to be selected: this tensor stays as in the base.</source>
<translation>Kein Eintrag unterscheidet sich genug, um gewählt zu werden: Dieser Tensor bleibt wie in der Basis.</translation>
</message>
<message>
<source>No expert changes this tensor, so it stays as in the base.</source>
<translation>Kein Experte ändert diesen Tensor, also bleibt er wie in der Basis.</translation>
</message>
<message>
<source>No expert has a task head of its own.</source>
<translation>Kein Experte hat einen eigenen Aufgabenkopf.</translation>
</message>
<message>
<source>No model has a tokenizer: there is nothing to compare.</source>
<translation>Kein Modell hat einen Tokenizer: Es gibt nichts zu vergleichen.</translation>
</message>
<message>
<source>No model is quantised.</source>
<translation>Kein Modell ist quantisiert.</translation>
</message>
<message>
<source>No refinement: it points against the sum of the task vectors (cosine {cosine}), and `refine` is `agreeing`.</source>
<translation>Keine Verfeinerung: Sie zeigt gegen die Summe der Aufgabenvektoren (Kosinus {cosine}), und verfeinert wird nur, wenn einig (`refine: agreeing`).</translation>
</message>
<message>
<source>No refinement: {k_frac} of the {min} singular directions is less than one.</source>
<translation>Keine Verfeinerung: {k_frac} der {min} Singulärrichtungen ist weniger als eine.</translation>
</message>
<message>
<source>No tensor is merged by the method: nothing here is a linear layer.</source>
<translation>Kein Tensor wird von der Methode zusammengeführt: Nichts hier ist eine lineare Schicht.</translation>
</message>
<message>
<source>No tokenizer gives another token to one of the base's ids.</source>
<translation>Kein Tokenizer gibt einer ID der Basis ein anderes Token.</translation>
</message>
<message>
<source>No two models hold the same weights.</source>
<translation>Keine zwei Modelle haben dieselben Gewichte.</translation>
</message>
<message>
<source>No weights here, but in {listing}. Open one of these: each is a model.</source>
<translation>Hier sind keine Gewichte, aber in {listing}. Öffnen Sie einen davon: Jeder ist ein Modell.</translation>
</message>
<message>
<source>No weights here. A model folder holds `model.safetensors`, or shards and an index.</source>
<translation>Hier sind keine Gewichte. Ein Modellordner enthält `model.safetensors` oder Shards und einen Index.</translation>
</message>
<message>
<source>Norm</source>
<translation>Norm</translation>
</message>
<message>
<source>Norms of</source>
<translation>Normen von</translation>
</message>
<message>
<source>Not floating point, so the base's are kept: {listing}.</source>
<translation>Keine Gleitkommazahlen, daher bleiben die der Basis: {listing}.</translation>
</message>
<message>
<source>Not found in {model_class}, described by name: {listing}.</source>
<translation>Nicht in {model_class} gefunden, nach Namen beschrieben: {listing}.</translation>
</message>
<message>
<source>Nothing of weight differs.</source>
<translation>Kein wesentlicher Unterschied.</translation>
</message>
<message>
<source>Nothing out of the ordinary in {tensors}.</source>
<translation>Nichts Ungewöhnliches in {tensors}.</translation>
</message>
<message>
<source>Nothing to remark.</source>
<translation>Nichts zu bemerken.</translation>
</message>
<message>
<source>NuSLERP</source>
<translation>NuSLERP</translation>
</message>
<message>
<source>Number format</source>
<translation>Zahlenformat</translation>
</message>
<message>
<source>Numerically unchanged by {names}: {then}.</source>
<translation>Numerisch unverändert durch {names}: {then}.</translation>
</message>
<message>
<source>Of Adam, absolute: it must suit the size of the changes.</source>
<translation>Von Adam, absolut: Sie muss zur Größe der Änderungen passen.</translation>
</message>
<message>
<source>Of Adam.</source>
<translation>Von Adam.</translation>
</message>
<message>
<source>Of a tensor so small that mergekit would keep no entry, the largest is kept here.</source>
<translation>Von einem Tensor, der so klein ist, dass mergekit keinen Eintrag behielte, wird hier der größte behalten.</translation>
</message>
<message>
<source>Of another shape than the config says: {listing}.</source>
<translation>Von anderer Form, als die Konfiguration sagt: {listing}.</translation>
</message>
<message>
<source>Of each expert's singular directions, the strongest, that are kept to begin with.</source>
<translation>Von den Singulärrichtungen jedes Experten die stärksten, die am Anfang behalten werden.</translation>
</message>
<message>
<source>Of how much an expert, an input or a layer changes beside the mean; 0: all alike.</source>
<translation>Davon, wie viel sich ein Experte, ein Eingang oder eine Schicht im Vergleich zum Mittel ändert; 0: alle gleich.</translation>
</message>
<message>
<source>Of how much the outputs change along each direction beside the mean of the kept ones; 0: as the paper's formula.</source>
<translation>Davon, wie viel sich die Ausgaben entlang jeder Richtung im Vergleich zum Mittel der behaltenen ändern; 0: wie die Formel des Artikels.</translation>
</message>
<message>
<source>Of the entries of each expert's whole change, the largest, with which masks begin.</source>
<translation>Von den Einträgen der ganzen Änderung jedes Experten die größten, mit denen Masken beginnen.</translation>
</message>
<message>
<source>Of the masks that are drawn in each step: near 0 they are 0 or 1.</source>
<translation>Der Masken, die in jedem Schritt gezogen werden: Nahe 0 sind sie 0 oder 1.</translation>
</message>
<message>
<source>Of the sigmoid that stands in for keeping a direction or not when gradients are taken.</source>
<translation>Der Sigmoidfunktion, die beim Ableiten dafür steht, ob eine Richtung bleibt.</translation>
</message>
<message>
<source>Of {n} examples, {first} {does} on {first2} and {second} on {second2}.</source>
<translation>Von {n} Beispielen: {first} {does} bei {first2}, {second} bei {second2}.</translation>
</message>
<message>
<source>Of {total}: {tensors} with a note.</source>
<translation>Von {total}: {tensors} mit einem Hinweis.</translation>
</message>
<message>
<source>Of {total}: {tensors} with a warning, {noted} with a note.</source>
<translation>Von {total}: {tensors} mit einer Warnung, {noted} mit einem Hinweis.</translation>
</message>
<message>
<source>Of {total}: {tensors} with a warning.</source>
<translation>Von {total}: {tensors} mit einer Warnung.</translation>
</message>
<message>
<source>Off-diagonal share α</source>
<translation>Anteil außerhalb der Diagonale α</translation>
</message>
<message>
<source>Only one expert changes this tensor, so its task vector was taken as it is.</source>
<translation>Nur ein Experte ändert diesen Tensor, also wurde sein Aufgabenvektor genommen, wie er ist.</translation>
</message>
<message>
<source>Only the parts of the pipeline are read, not the weights beside them.</source>
<translation>Nur die Teile der Pipeline werden gelesen, nicht die Gewichte daneben.</translation>
</message>
<message>
<source>Only the variant {name} is here; a merged model has the usual name instead, without a variant.</source>
<translation>Nur die Variante {name} ist hier; ein zusammengeführtes Modell hat stattdessen den üblichen Namen, ohne Variante.</translation>
</message>
<message>
<source>Only {single} is read, not {listing}.</source>
<translation>Nur {single} wird gelesen, nicht {listing}.</translation>
</message>
<message>
<source>Outliers</source>
<translation>Ausreißer</translation>
</message>
<message>
<source>PCB-Merging</source>
<translation>PCB-Merging</translation>
</message>
<message>
<source>Patience</source>
<translation>Geduld</translation>
</message>
<message>
<source>Percent of each expert's nuclear norm that its kept singular values make up.</source>
<translation>Prozent der Kernnorm jedes Experten, die seine behaltenen Singulärwerte ausmachen.</translation>
</message>
<message>
<source>Position t</source>
<translation>Stelle t</translation>
</message>
<message>
<source>Power</source>
<translation>Exponent</translation>
</message>
<message>
<source>Power of eigenvalues</source>
<translation>Exponent der Eigenwerte</translation>
</message>
<message>
<source>Precision of the base's weights, as a share of the mean Fisher information; small: nearly the Fisher average, large: the sum of the task vectors.</source>
<translation>Präzision der Gewichte der Basis, als Anteil an der mittleren Fisher-Information; klein: fast das Fisher-Mittel, groß: die Summe der Aufgabenvektoren.</translation>
</message>
<message>
<source>Prior H₀</source>
<translation>Prior H₀</translation>
</message>
<message>
<source>Probably the same weights as {seen}: every block that was sampled is equal. Remove it unless it is meant to count.</source>
<translation>Wahrscheinlich dieselben Gewichte wie {seen}: Jeder geprüfte Block ist gleich. Entfernen Sie es, wenn es nicht zählen soll.</translation>
</message>
<message>
<source>Published: the paper's procedure, whose ridge is absolute. Automatic: the ridge follows the scale of each layer, nothing is refined, and the change is capped. Measured: as published, with the covariances of the inputs that each expert has with its own data.</source>
<translation>Veröffentlicht: das Verfahren des Artikels, dessen Ridge absolut ist. Automatisch: Der Ridge folgt der Größenordnung jeder Schicht, nichts wird verfeinert, und die Änderung hat eine Obergrenze. Gemessen: wie veröffentlicht, mit den Kovarianzen der Eingaben, die jeder Experte mit seinen eigenen Daten hat.</translation>
</message>
<message>
<source>Puts a low-rank expert for every task beside each linear layer of the base, and sends every input to the one whose leading directions it lies in; the rest is averaged.</source>
<translation>Stellt neben jede lineare Schicht der Basis einen niedrigrangigen Experten für jede Aufgabe und schickt jede Eingabe zu dem, in dessen führenden Richtungen sie liegt; der Rest wird gemittelt.</translation>
</message>
<message>
<source>Quantisation</source>
<translation>Quantisierung</translation>
</message>
<message>
<source>RAM</source>
<translation>RAM</translation>
</message>
<message>
<source>RAM+ by tensor</source>
<translation>RAM+ nach Tensor</translation>
</message>
<message>
<source>Rank</source>
<translation>Rang</translation>
</message>
<message>
<source>Rank k</source>
<translation>Rang k</translation>
</message>
<message>
<source>Rank of the gate k_g</source>
<translation>Rang des Gates k_g</translation>
</message>
<message>
<source>Rank q</source>
<translation>Rang q</translation>
</message>
<message>
<source>Rank share ρ</source>
<translation>Ranganteil ρ</translation>
</message>
<message>
<source>Refine</source>
<translation>Verfeinern</translation>
</message>
<message>
<source>Refined fraction</source>
<translation>Verfeinerter Anteil</translation>
</message>
<message>
<source>Refinement</source>
<translation>Verfeinerung</translation>
</message>
<message>
<source>RegMean</source>
<translation>RegMean</translation>
</message>
<message>
<source>Removes the low frequencies of every expert's change, in which experts interfere most, and adds the rest.</source>
<translation>Entfernt die tiefen Frequenzen der Änderung jedes Experten, in denen die Experten sich am meisten stören, und addiert den Rest.</translation>
</message>
<message>
<source>Representation Surgery</source>
<translation>Representation Surgery</translation>
</message>
<message>
<source>Rescaling</source>
<translation>Reskalierung</translation>
</message>
<message>
<source>Rescaling r</source>
<translation>Reskalierung r</translation>
</message>
<message>
<source>Ridge</source>
<translation>Ridge</translation>
</message>
<message>
<source>Ridge mass</source>
<translation>Ridge-Masse</translation>
</message>
<message>
<source>Ridge share α</source>
<translation>Ridge-Anteil α</translation>
</message>
<message>
<source>Ridge ε</source>
<translation>Ridge ε</translation>
</message>
<message>
<source>RoBERTa</source>
<translation>RoBERTa</translation>
</message>
<message>
<source>RoBERTa-base</source>
<translation>RoBERTa-base</translation>
</message>
<message>
<source>Row by row</source>
<translation>Zeilenweise</translation>
</message>
<message>
<source>Rows and columns are those of outputs × inputs; mergekit's are those of the tensor as it is stored, which GPT-2 does the other way round.</source>
<translation>Zeilen und Spalten sind die von Ausgängen × Eingängen; die von mergekit sind die des Tensors, wie er gespeichert ist, was bei GPT-2 umgekehrt ist.</translation>
</message>
<message>
<source>Rows are matched by token: {moved} stand elsewhere here, {lacking} of the base's tokens are missing here and count as unchanged, and {new_tokens}.</source>
<translation>Zeilen werden nach Token zugeordnet: {moved} stehen hier anderswo, {lacking} Token der Basis fehlen hier und zählen als unverändert, und {new_tokens}.</translation>
</message>
<message>
<source>SCE</source>
<translation>SCE</translation>
</message>
<message>
<source>SLERP</source>
<translation>SLERP</translation>
</message>
<message>
<source>SLERP from the base</source>
<translation>SLERP von der Basis</translation>
</message>
<message>
<source>SLERP whose position follows from the two experts' weights, at choice row by row.</source>
<translation>SLERP, dessen Stelle aus den Gewichten der beiden Experten folgt, auf Wunsch zeilenweise.</translation>
</message>
<message>
<source>SMILE</source>
<translation>SMILE</translation>
</message>
<message>
<source>STAR</source>
<translation>STAR</translation>
</message>
<message>
<source>STAR's comparison</source>
<translation>Vergleich in STAR</translation>
</message>
<message>
<source>Scale each layer by how much its merged change exceeds that of the others of its role; takes a pass over the whole model first.</source>
<translation>Jede Schicht danach skalieren, wie sehr ihre Änderung die der anderen ihrer Rolle übersteigt; braucht zuerst einen Durchgang durch das ganze Modell.</translation>
</message>
<message>
<source>Scale layers</source>
<translation>Schichten skalieren</translation>
</message>
<message>
<source>Scaling</source>
<translation>Skalierung</translation>
</message>
<message>
<source>Scaling α</source>
<translation>Skalierung α</translation>
</message>
<message>
<source>Scaling λ</source>
<translation>Skalierung λ</translation>
</message>
<message>
<source>Scaling λ₀</source>
<translation>Skalierung λ₀</translation>
</message>
<message>
<source>Scores every entry of every expert by its size and by how far the others agree with it, and averages the winners by their scores.</source>
<translation>Bewertet jeden Eintrag jedes Experten nach seiner Größe und danach, wie weit die anderen ihm zustimmen, und mittelt die Gewinner nach ihren Bewertungen.</translation>
</message>
<message>
<source>Selected share</source>
<translation>Gewählter Anteil</translation>
</message>
<message>
<source>Shapes</source>
<translation>Formen</translation>
</message>
<message>
<source>Share at first</source>
<translation>Anteil am Anfang</translation>
</message>
<message>
<source>Share kept at first</source>
<translation>Behaltener Anteil am Anfang</translation>
</message>
<message>
<source>Share of a tensor's entries that TIES keeps afterwards; 1, as in mergekit, trims nothing, FusionBench trims to 0.2.</source>
<translation>Anteil der Einträge eines Tensors, den TIES danach behält; 1 kürzt wie in mergekit nichts, FusionBench kürzt auf 0,2.</translation>
</message>
<message>
<source>Share of directions taken from the sum; the rest is split evenly among the experts.</source>
<translation>Anteil der Richtungen, die aus der Summe kommen; der Rest wird gleichmäßig auf die Experten verteilt.</translation>
</message>
<message>
<source>Share of each expert's entries that is kept, the largest changes of the whole model. 5 % is what the published code takes for language models, 1 % what surveys quote.</source>
<translation>Anteil der Einträge jedes Experten, der behalten wird, die größten Änderungen des ganzen Modells. 5 % nimmt der veröffentlichte Code für Sprachmodelle, 1 % nennen Übersichten.</translation>
</message>
<message>
<source>Share of each row of a matrix that an expert keeps: its largest entries.</source>
<translation>Anteil jeder Zeile einer Matrix, den ein Experte behält: ihre größten Einträge.</translation>
</message>
<message>
<source>Share of each tensor's entries that are kept; named as in mergekit, whose default of 1 keeps all. The paper leaves out the smallest 85 %.</source>
<translation>Anteil der Einträge jedes Tensors, der behalten wird; benannt wie in mergekit, wo der Standard 1 alle behält. Der Artikel lässt die kleinsten 85 % weg.</translation>
</message>
<message>
<source>Share of each tensor's largest entries that are left out; 0 keeps them. No more than 1 − density are.</source>
<translation>Anteil der größten Einträge jedes Tensors, der weggelassen wird; 0 behält sie. Nicht mehr als 1 − Dichte.</translation>
</message>
<message>
<source>Share of entries kept of each task vector over the whole model (++).</source>
<translation>Anteil der behaltenen Einträge jedes Aufgabenvektors über das ganze Modell (++).</translation>
</message>
<message>
<source>Share of entries kept of each task vector, the largest by magnitude. Entries as large as the last one kept stay. mergekit keeps all unless told otherwise.</source>
<translation>Anteil der behaltenen Einträge jedes Aufgabenvektors, die größten nach Betrag. Einträge, so groß wie der letzte behaltene, bleiben. mergekit behält alle, wenn nichts anderes gesagt wird.</translation>
</message>
<message>
<source>Share of entries of each expert that compete successfully; 5 to 10 % in the paper. Scores are those of its code for vision models: the softmax of its text is flat over millions of entries, and its code for language models depends on the changes' size.</source>
<translation>Anteil der Einträge jedes Experten, der sich durchsetzt; 5 bis 10 % im Artikel. Die Bewertungen sind die seines Codes für Bildmodelle: Der Softmax seines Textes ist über Millionen Einträge flach, und sein Code für Sprachmodelle hängt von der Größe der Änderungen ab.</translation>
</message>
<message>
<source>Share of singular directions kept of each expert's difference to the mean.</source>
<translation>Anteil der behaltenen Singulärrichtungen der Differenz jedes Experten zum Mittel.</translation>
</message>
<message>
<source>Share of singular directions raised in heterogeneous tensors; 0 turns it off.</source>
<translation>Anteil der Singulärrichtungen, der in heterogenen Tensoren angehoben wird; 0 schaltet es aus.</translation>
</message>
<message>
<source>Share of the coordinates kept of each expert, the largest by magnitude. Directions count from 1e-6 of a layer's strongest on; the published code cuts at 1e-5 absolute.</source>
<translation>Anteil der behaltenen Koordinaten jedes Experten, die größten nach Betrag. Richtungen zählen ab 1e-6 der stärksten einer Schicht; der veröffentlichte Code schneidet bei 1e-5 absolut ab.</translation>
</message>
<message>
<source>Share of the entries that differ at all between experts that is kept, those of the largest variance; 1, as in mergekit, keeps every entry. Below 1, experts that agree in every entry of a tensor leave it as in the base.</source>
<translation>Anteil der zwischen den Experten überhaupt verschiedenen Einträge, der behalten wird, die mit der größten Varianz; 1 behält wie in mergekit jeden Eintrag. Unter 1 lassen Experten, die in jedem Eintrag eines Tensors übereinstimmen, ihn wie in der Basis.</translation>
</message>
<message>
<source>Share of the entries that is kept; the paper has 0.01 to 0.1, 1 gives the expert.</source>
<translation>Anteil der Einträge, der behalten wird; im Artikel 0,01 bis 0,1, 1 ergibt den Experten.</translation>
</message>
<message>
<source>Shared tensors are stored once: {join}{more}.</source>
<translation>Gemeinsame Tensoren sind einmal gespeichert: {join}{more}.</translation>
</message>
<message>
<source>Singular triplets of each expert's change that its part of a layer has.</source>
<translation>Singulärtripel der Änderung jedes Experten, die sein Teil einer Schicht hat.</translation>
</message>
<message>
<source>Singular triplets that are kept of every matrix; all of them give the expert.</source>
<translation>Singulärtripel, die von jeder Matrix behalten werden; alle ergeben den Experten.</translation>
</message>
<message>
<source>Smallest merged by experts' norm</source>
<translation>Kleinste Norm des Merges durch die der Experten</translation>
</message>
<message>
<source>Solution</source>
<translation>Lösung</translation>
</message>
<message>
<source>Solves for the one matrix whose outputs are nearest to each expert's on the inputs that this expert had with its own data.</source>
<translation>Löst nach der einen Matrix auf, deren Ausgaben denen jedes Experten auf den Eingaben am nächsten sind, die dieser mit seinen eigenen Daten hatte.</translation>
</message>
<message>
<source>Sparse task vectors</source>
<translation>Dünn besetzte Aufgabenvektoren</translation>
</message>
<message>
<source>Sparsity s</source>
<translation>Anteil der Nullen s</translation>
</message>
<message>
<source>Sparsity ℓ₁</source>
<translation>Anteil der Nullen ℓ₁</translation>
</message>
<message>
<source>Spectra and bases</source>
<translation>Spektren und Basen</translation>
</message>
<message>
<source>Spread ε</source>
<translation>Spreizung ε</translation>
</message>
<message>
<source>Stabilises the solve; the sensitive parameter. The paper sets it by model family.</source>
<translation>Stabilisiert die Lösung; der empfindliche Parameter. Der Artikel setzt ihn je Modellfamilie.</translation>
</message>
<message>
<source>Steps</source>
<translation>Schritte</translation>
</message>
<message>
<source>Steps at most; 0 gives the normalised mean of the directions.</source>
<translation>Höchstzahl der Schritte; 0 ergibt das normierte Mittel der Richtungen.</translation>
</message>
<message>
<source>Steps of Adam for each task; 0 leaves the merge as it is.</source>
<translation>Schritte von Adam für jede Aufgabe; 0 lässt den Merge, wie er ist.</translation>
</message>
<message>
<source>Steps of Adam, each with 16 examples of every task; 0 leaves the merge nearly as it is.</source>
<translation>Schritte von Adam, jeder mit 16 Beispielen jeder Aufgabe; 0 lässt den Merge fast, wie er ist.</translation>
</message>
<message>
<source>Steps of Adam; 300 in the paper, 400 in FusionBench. Ignored by the closed form.</source>
<translation>Schritte von Adam; 300 im Artikel, 400 in FusionBench. Die geschlossene Form beachtet sie nicht.</translation>
</message>
<message>
<source>Stop when answers did not come nearer to the experts' own for so many steps, and keep what came nearest; 0: take all steps, as published.</source>
<translation>Anhalten, wenn die Antworten denen der Experten so viele Schritte lang nicht näher gekommen sind, und behalten, was ihnen am nächsten kam; 0: alle Schritte tun, wie veröffentlicht.</translation>
</message>
<message>
<source>Stops when a step turns the mean by no more than this, in radians.</source>
<translation>Hält an, wenn ein Schritt das Mittel um nicht mehr als dies dreht, im Bogenmaß.</translation>
</message>
<message>
<source>Straight above</source>
<translation>Gerade oberhalb</translation>
</message>
<message>
<source>Strong prior</source>
<translation>Starker Prior</translation>
</message>
<message>
<source>Sums of task vectors</source>
<translation>Summen von Aufgabenvektoren</translation>
</message>
<message>
<source>TALL masks</source>
<translation>TALL-Masken</translation>
</message>
<message>
<source>TIES-Merging</source>
<translation>TIES-Merging</translation>
</message>
<message>
<source>TSV-Compress</source>
<translation>TSV-Compress</translation>
</message>
<message>
<source>TSV-Merging</source>
<translation>TSV-Merging</translation>
</message>
<message>
<source>Takes one expert's weights where they are near the base's; else moves towards them.</source>
<translation>Nimmt die Gewichte eines Experten, wo sie denen der Basis nahe sind; sonst nähert es sich ihnen.</translation>
</message>
<message>
<source>Takes the entries of one expert that matter most, and leaves the rest as in the base.</source>
<translation>Nimmt die Einträge eines Experten, auf die es am meisten ankommt, und lässt den Rest wie in der Basis.</translation>
</message>
<message>
<source>Takes the experts' mean and adds the main directions in which each differs from it.</source>
<translation>Nimmt das Mittel der Experten und addiert die Hauptrichtungen, in denen jeder von ihm abweicht.</translation>
</message>
<message>
<source>Takes the experts' mean, and goes towards it from the base as far as the angle between the experts says that they agree.</source>
<translation>Nimmt das Mittel der Experten und geht von der Basis so weit auf es zu, wie sie nach dem Winkel zwischen ihnen übereinstimmen.</translation>
</message>
<message>
<source>Takes the mean of the experts' directions, at their mean norm.</source>
<translation>Nimmt das Mittel der Richtungen der Experten mit ihrer mittleren Norm.</translation>
</message>
<message>
<source>Takes the mean of the experts' weights, each counted by its own weight.</source>
<translation>Nimmt das Mittel der Gewichte der Experten, jeder mit seinem eigenen Gewicht gezählt.</translation>
</message>
<message>
<source>Takes the mean of the experts, each entry weighted by how much that expert's answers to its own data depend on it.</source>
<translation>Nimmt das Mittel der Experten, jeder Eintrag danach gewichtet, wie sehr die Antworten dieses Experten auf seine eigenen Daten von ihm abhängen.</translation>
</message>
<message>
<source>Task arithmetic</source>
<translation>Task arithmetic</translation>
</message>
<message>
<source>Task arithmetic, and for each task a low-rank correction of what its head is given, trained to be what its expert would give it.</source>
<translation>Aufgabenarithmetik, und für jede Aufgabe eine niedrigrangige Korrektur dessen, was ihr Kopf bekommt, trainiert auf das, was ihr Experte ihm gäbe.</translation>
</message>
<message>
<source>Task arithmetic, and the experts' compressed differences from it, which a router mixes for each example by what the merged model makes of it.</source>
<translation>Aufgabenarithmetik, und die komprimierten Unterschiede der Experten zu ihr, die ein Router für jedes Beispiel danach mischt, was das zusammengeführte Modell daraus macht.</translation>
</message>
<message>
<source>Task arithmetic, but MLP blocks have all experts' changes beside them, and a router that weighs these for each example, trained to make answers sure.</source>
<translation>Aufgabenarithmetik, aber neben MLP-Blöcken stehen die Änderungen aller Experten und ein Router, der sie für jedes Beispiel gewichtet, trainiert auf sichere Antworten.</translation>
</message>
<message>
<source>Temperature</source>
<translation>Temperatur</translation>
</message>
<message>
<source>Tensor `{plain}` could be of several parts.</source>
<translation>Der Tensor `{plain}` könnte zu mehreren Teilen gehören.</translation>
</message>
<message>
<source>Tensor `{plain}` is defined twice, {where}.</source>
<translation>Der Tensor `{plain}` ist doppelt definiert, {where}.</translation>
</message>
<message>
<source>Tensors are described by their names.</source>
<translation>Tensoren werden nach ihren Namen beschrieben.</translation>
</message>
<message>
<source>Tensors with γ above it count as heterogeneous: normalised and refined.</source>
<translation>Tensoren mit einem γ darüber gelten als heterogen: normiert und verfeinert.</translation>
</message>
<message>
<source>That is tight.</source>
<translation>Das ist knapp.</translation>
</message>
<message>
<source>The GPU had no room for all matrices that are merged together with this one: fewer were, so that its last digits may differ from those of another run.</source>
<translation>Die GPU hatte keinen Platz für alle Matrizen, die mit dieser zusammen berechnet werden: Es waren weniger, sodass sich die letzten Stellen von denen eines anderen Laufs unterscheiden können.</translation>
</message>
<message>
<source>The GPU had no room for this matrix beside others: from it on, fewer are merged at a time.</source>
<translation>Die GPU hatte keinen Platz für diese Matrix neben anderen: Von ihr an werden weniger auf einmal berechnet.</translation>
</message>
<message>
<source>The GPU had no room for this matrix: it was merged on the processor.</source>
<translation>Die GPU hatte keinen Platz für diese Matrix: Sie wurde auf dem Prozessor berechnet.</translation>
</message>
<message>
<source>The GPUs are hidden from this program; unset {name} to use them.</source>
<translation>Die GPUs sind vor diesem Programm verborgen; heben Sie {name} auf, um sie zu benutzen.</translation>
</message>
<message>
<source>The NVIDIA driver is too old for this build of torch{made_for}; update the driver.</source>
<translation>Der NVIDIA-Treiber ist zu alt für diesen Build von torch{made_for}; aktualisieren Sie den Treiber.</translation>
</message>
<message>
<source>The answers of the task {plain} have no probabilities, so that it took no part in what was learned.</source>
<translation>Die Antworten der Aufgabe {plain} haben keine Wahrscheinlichkeiten, daher nahm sie am Lernen nicht teil.</translation>
</message>
<message>
<source>The base has a {MODULES} of its own, which says of what it is made; merge its transformer alone, or choose a method that leaves no modules.</source>
<translation>Die Basis hat eine eigene {MODULES}, die sagt, woraus sie besteht; führen Sie nur ihren Transformer zusammen, oder wählen Sie eine Methode, die keine Module hinterlässt.</translation>
</message>
<message>
<source>The base has no {listing}, so that it is left out.</source>
<translation>Der Basis fehlt {listing}, daher bleibt es weg.</translation>
</message>
<message>
<source>The base's tensor is kept: {join}.</source>
<translation>Der Tensor der Basis bleibt: {join}.</translation>
</message>
<message>
<source>The cap does not apply here: fewer than two experts changed this matrix.</source>
<translation>Die Obergrenze gilt hier nicht: Weniger als zwei Experten haben diese Matrix geändert.</translation>
</message>
<message>
<source>The cap does not apply here: the experts move all outputs alike, so that it has no scale.</source>
<translation>Die Obergrenze gilt hier nicht: Die Experten bewegen alle Ausgänge gleich, sodass sie keinen Maßstab hat.</translation>
</message>
<message>
<source>The cap scaled the merged change to {factor} of its length.</source>
<translation>Die Obergrenze hat die Änderung durch den Merge auf das {factor}-Fache ihrer Länge verkleinert.</translation>
</message>
<message>
<source>The chances of a row rise evenly by rank from density − ε for its smallest entry to density + ε for its largest, both within 0 and 1. This is half of the paper's ε, and mergekit's. 0 gives DARE, and a density of 1 keeps everything.</source>
<translation>Die Wahrscheinlichkeiten einer Zeile steigen nach dem Rang gleichmäßig von Dichte − ε für ihren kleinsten bis Dichte + ε für ihren größten Eintrag, beide zwischen 0 und 1. Dies ist die Hälfte des ε im Artikel und in mergekit. 0 ergibt DARE, und eine Dichte von 1 behält alles.</translation>
</message>
<message>
<source>The chat template is the base's, not the one the file names.</source>
<translation>Die Chat-Vorlage ist die der Basis, nicht die, die die Datei nennt.</translation>
</message>
<message>
<source>The config is described as {model_class}, since {reason}.</source>
<translation>Die Konfiguration wird als {model_class} beschrieben: {reason}.</translation>
</message>
<message>
<source>The config is of another library.</source>
<translation>Die Konfiguration ist von einer anderen Bibliothek.</translation>
</message>
<message>
<source>The config points to code of its own, which is never run.</source>
<translation>Die Konfiguration verweist auf eigenen Code, der nie ausgeführt wird.</translation>
</message>
<message>
<source>The experts point apart (mean cosine {cosine}), so this tensor stays as in the base.</source>
<translation>Die Experten zeigen auseinander (mittlerer Kosinus {cosine}), also bleibt dieser Tensor wie in der Basis.</translation>
</message>
<message>
<source>The folder is empty. Choose the folder of a model.</source>
<translation>Der Ordner ist leer. Wählen Sie den Ordner eines Modells.</translation>
</message>
<message>
<source>The fused matrix has only {rank} directions above rounding where {k} were to be refined; the others, which are arbitrary, were left alone.</source>
<translation>Die gebündelte Matrix hat nur {rank} Richtungen über der Rundung, wo {k} verfeinert werden sollten; die anderen sind beliebig und blieben unberührt.</translation>
</message>
<message>
<source>The mean energy is {mean_energy}. ACE divides its prior by it, which takes up to {lost} of each row's mean over the inputs (½ in the homogeneous regime). Raise τ if this tensor should keep more of it.</source>
<translation>Die mittlere Energie ist {mean_energy}. ACE teilt seinen Prior durch sie, was bis zu {lost} vom Mittel jeder Zeile über die Eingänge wegnimmt (½ im homogenen Regime). Erhöhen Sie τ, wenn dieser Tensor mehr davon behalten soll.</translation>
</message>
<message>
<source>The merged change has {ratio} of the experts' mean norm: most of what they learned here is lost. Compare another method for this tensor.</source>
<translation>Die Änderung durch den Merge hat {ratio} der mittleren Norm der Experten: Das meiste, was sie hier gelernt haben, ist verloren. Vergleichen Sie für diesen Tensor eine andere Methode.</translation>
</message>
<message>
<source>The merged change is {ratio} times as large as the experts' on average. Lower the scaling, or check this tensor's ε.</source>
<translation>Die Änderung durch den Merge ist {ratio}-mal so groß wie die der Experten im Mittel. Senken Sie die Skalierung, oder prüfen Sie ε für diesen Tensor.</translation>
</message>
<message>
<source>The merged change is {share} times as long as the experts' own suggest (the cap of the automatic variant). Try the automatic variant, or a cap, for this tensor.</source>
<translation>Die Änderung durch den Merge ist {share}-mal so lang, wie die der Experten nahelegen (die Obergrenze der automatischen Variante). Versuchen Sie für diesen Tensor die automatische Variante oder eine Obergrenze.</translation>
</message>
<message>
<source>The merged change of a matrix is at most this share of the base's norm, or the experts' root mean square norm where that is larger.</source>
<translation>Die Änderung einer Matrix durch den Merge ist höchstens dieser Anteil der Norm der Basis, oder das quadratische Mittel der Normen der Experten, wo dieses größer ist.</translation>
</message>
<message>
<source>The methods of {whose} cannot be used: {name}: {error}</source>
<translation>Die Methoden aus {whose} können nicht benutzt werden: {name}: {error}</translation>
</message>
<message>
<source>The output has the base's tokenizer; the rows of these ids are combined all the same. Under Vocabulary you can have them matched by token, or keep the base's.</source>
<translation>Die Ausgabe hat den Tokenizer der Basis; die Zeilen dieser IDs werden trotzdem kombiniert. Unter Vokabular können Sie sie nach Token zuordnen lassen oder die der Basis behalten.</translation>
</message>
<message>
<source>The paper's value for GPT-2.</source>
<translation>Der Wert des Artikels für GPT-2.</translation>
</message>
<message>
<source>The paper's value for RoBERTa-base.</source>
<translation>Der Wert des Artikels für RoBERTa-base.</translation>
</message>
<message>
<source>The paper's value for models other than GPT-2 and RoBERTa-base.</source>
<translation>Der Wert des Artikels für andere Modelle als GPT-2 und RoBERTa-base.</translation>
</message>
<message>
<source>The refinement is {refinement} times as large as the solution it refines. Lower ε, lower the refined fraction, or raise τ.</source>
<translation>Die Verfeinerung ist {refinement}-mal so groß wie die Lösung, die sie verfeinert. Senken Sie ε, senken Sie den verfeinerten Anteil, oder erhöhen Sie τ.</translation>
</message>
<message>
<source>The refinement points against the sum of the task vectors (cosine {cosine}). Lower epsilon, or set k_frac to 0.</source>
<translation>Die Verfeinerung zeigt gegen die Summe der Aufgabenvektoren (Kosinus {cosine}). Senken Sie ε, oder setzen Sie den verfeinerten Anteil auf 0.</translation>
</message>
<message>
<source>The ridge as a share of the mean eigenvalue of each expert's normalised Gram matrix. 0.3 to 1 hardly differ.</source>
<translation>Der Ridge als Anteil am mittleren Eigenwert der normierten Gram-Matrix jedes Experten. 0,3 bis 1 unterscheiden sich kaum.</translation>
</message>
<message>
<source>The ridge mass is {ridge_mass} (more than {LARGEST_RIDGE_MASS}), so that the refinement may work against the experts. Lower epsilon.</source>
<translation>Die Ridge-Masse ist {ridge_mass} (mehr als {LARGEST_RIDGE_MASS}), sodass die Verfeinerung gegen die Experten wirken kann. Senken Sie ε.</translation>
</message>
<message>
<source>The ridge mass Σ εₜ is {mass}: noticeable in the refinement, which it turns against the experts as it nears 1. A lower ε would leave more room.</source>
<translation>Die Ridge-Masse Σ εₜ ist {mass}: in der Verfeinerung zu merken, die sie gegen die Experten wendet, je näher sie an 1 kommt. Ein kleineres ε ließe mehr Raum.</translation>
</message>
<message>
<source>The ridge mass Σ εₜ will be {least} or more, so that the refinement may work against the experts. Lower ε.</source>
<translation>Die Ridge-Masse Σ εₜ wird {least} oder mehr sein, sodass die Verfeinerung gegen die Experten wirken kann. Senken Sie ε.</translation>
</message>
<message>
<source>The rows of the base are kept, as chosen under Vocabulary.</source>
<translation>Die Zeilen der Basis bleiben, wie unter Vokabular gewählt.</translation>
</message>
<message>
<source>The shards hold tensors that the index does not list: {listing}.</source>
<translation>Die Shards enthalten Tensoren, die der Index nicht nennt: {listing}.</translation>
</message>
<message>
<source>The shards' index is missing. Download `model{INDEX_SUFFIX}` into the folder.</source>
<translation>Der Index der Shards fehlt. Laden Sie `model{INDEX_SUFFIX}` in den Ordner herunter.</translation>
</message>
<message>
<source>The system is numerically singular: {cut} directions were left out of the solution. Raise epsilon.</source>
<translation>Das System ist numerisch singulär: {cut} Richtungen wurden in der Lösung weggelassen. Erhöhen Sie ε.</translation>
</message>
<message>
<source>The system's condition number may reach {condition}, which costs accuracy. Raise epsilon.</source>
<translation>Die Konditionszahl des Systems kann {condition} erreichen, was Genauigkeit kostet. Erhöhen Sie ε.</translation>
</message>
<message>
<source>The tokenizer is the base's, not {source} as the file says.</source>
<translation>Der Tokenizer ist der der Basis, nicht {source}, wie die Datei sagt.</translation>
</message>
<message>
<source>The weakest refined direction is {weakest} of the strongest, below the rounding of float32, so that rounding noise is amplified. Lower k_frac.</source>
<translation>Die schwächste verfeinerte Richtung ist das {weakest}-Fache der stärksten, unter der Rundung von float32, sodass Rundungsrauschen verstärkt wird. Senken Sie den verfeinerten Anteil.</translation>
</message>
<message>
<source>The workers do not reach the output folder: they have sent what it got.</source>
<translation>Die Arbeiter erreichen den Ausgabeordner nicht: Sie haben geschickt, was hineinkam.</translation>
</message>
<message>
<source>The workers reach the output folder: they have written it themselves.</source>
<translation>Die Arbeiter erreichen den Ausgabeordner: Sie haben ihn selbst geschrieben.</translation>
</message>
<message>
<source>The workers' processors or GPUs are not all of one kind: a merge by others may differ in the last digits.</source>
<translation>Die Prozessoren oder GPUs der Arbeiter sind nicht alle von einer Art: Ein Merge mit anderen kann sich in den letzten Stellen unterscheiden.</translation>
</message>
<message>
<source>There are {experts} experts for a matrix of {rank} singular values: one direction of each was taken, and they overlap.</source>
<translation>Es gibt {experts} Experten für eine Matrix mit {rank} Singulärwerten: Von jedem wurde eine Richtung genommen, und sie überlappen.</translation>
</message>
<message>
<source>There is no NVIDIA driver, or no NVIDIA GPU; install the driver to use one.</source>
<translation>Es gibt keinen NVIDIA-Treiber oder keine NVIDIA-GPU; installieren Sie den Treiber, um eine zu benutzen.</translation>
</message>
<message>
<source>There is no config.json.</source>
<translation>Es gibt keine config.json.</translation>
</message>
<message>
<source>These two have no examples in common on which they could be compared.</source>
<translation>Diese zwei haben keine gemeinsamen Beispiele, an denen sie verglichen werden könnten.</translation>
</message>
<message>
<source>This</source>
<translation>Dies</translation>
</message>
<message>
<source>This build of torch computes on the processor only, as the one that pip installs on Windows does; for an NVIDIA GPU install one built for CUDA, {GET_TORCH}.</source>
<translation>Dieser Build von torch rechnet nur auf dem Prozessor, wie der, den pip unter Windows installiert; für eine NVIDIA-GPU installieren Sie einen für CUDA gebauten, {GET_TORCH}.</translation>
</message>
<message>
<source>This file has no schema and says nothing that mergekit does not know, so it is read as mergekit's, with mergekit's defaults; write `schema: 1` in a recipe of this application.</source>
<translation>Diese Datei hat kein Schema und sagt nichts, was mergekit nicht kennt; sie wird daher als Datei von mergekit gelesen, mit dessen Standardwerten. In ein Rezept dieser Anwendung schreiben Sie `schema: 1`.</translation>
</message>
<message>
<source>This {method} of mergekit's: {sentence}.</source>
<translation>Dieses {method} von mergekit: {sentence}.</translation>
</message>
<message>
<source>Threshold</source>
<translation>Schwelle</translation>
</message>
<message>
<source>Threshold τ</source>
<translation>Schwelle τ</translation>
</message>
<message>
<source>Tied as in the base.</source>
<translation>Gebunden wie in der Basis.</translation>
</message>
<message>
<source>Tied weights</source>
<translation>Gebundene Gewichte</translation>
</message>
<message>
<source>Ties its head to the embedding, but the base has its own {listing}: the merged model keeps the base's head.</source>
<translation>Bindet seinen Kopf an die Einbettung, aber die Basis hat eigene {listing}: Das zusammengeführte Modell behält den Kopf der Basis.</translation>
</message>
<message>
<source>Tokens cannot be compared. {sentence}</source>
<translation>Token können nicht verglichen werden. {sentence}</translation>
</message>
<message>
<source>Tolerance</source>
<translation>Toleranz</translation>
</message>
<message>
<source>Torch finds no GPU.</source>
<translation>Torch findet keine GPU.</translation>
</message>
<message>
<source>Twin-Merging</source>
<translation>Twin-Merging</translation>
</message>
<message>
<source>Two equal models differ as much {often}: hardly chance.</source>
<translation>Zwei gleiche Modelle unterscheiden sich so sehr {often}: kaum Zufall.</translation>
</message>
<message>
<source>Two equal models differ as much {often}: it may be chance.</source>
<translation>Zwei gleiche Modelle unterscheiden sich so sehr {often}: Es kann Zufall sein.</translation>
</message>
<message>
<source>UBGM</source>
<translation>UBGM</translation>
</message>
<message>
<source>Uncertainty-based gradient matching: adds the experts' changes, each entry scaled by how certain that expert is of it beside all of them and the base.</source>
<translation>Gradientenabgleich nach Unsicherheit: addiert die Änderungen der Experten, jeder Eintrag danach skaliert, wie sicher sich dieser Experte neben allen und der Basis ist.</translation>
</message>
<message>
<source>Variant</source>
<translation>Variante</translation>
</message>
<message>
<source>Vocabulary</source>
<translation>Vokabular</translation>
</message>
<message>
<source>WEMoE</source>
<translation>WEMoE</translation>
</message>
<message>
<source>WUDI-Merging</source>
<translation>WUDI-Merging</translation>
</message>
<message>
<source>Weight averaging</source>
<translation>Weight averaging</translation>
</message>
<message>
<source>Weight of the base</source>
<translation>Gewicht der Basis</translation>
</message>
<message>
<source>Weights the experts, tensor by tensor, by how much they changed, after leaving out entries in which they hardly differ and signs in the minority.</source>
<translation>Gewichtet die Experten Tensor für Tensor danach, wie viel sie geändert haben; Einträge, in denen sie sich kaum unterscheiden, und Vorzeichen in der Minderheit bleiben weg.</translation>
</message>
<message>
<source>What 'tokenizer' says of tokens is left out; the tokenizer is the base's.</source>
<translation>Was „tokenizer“ über Token sagt, bleibt weg; der Tokenizer ist der der Basis.</translation>
</message>
<message>
<source>What an expert's ratio of shared to unique entries counts at most.</source>
<translation>So viel zählt das Verhältnis gemeinsamer zu eigenen Einträgen eines Experten höchstens.</translation>
</message>
<message>
<source>What an expert's scale matches. tensors: the mean magnitude of its change, every tensor counting alike, as in the published code; entries: the same with every entry counting alike, as in the paper; least squares: the scale that comes nearest to the expert's weights, which need not be the best at its task. The merged weights are the same.</source>
<translation>Woran sich die Skala eines Experten hält. Tensoren: an den mittleren Betrag seiner Änderung, jeder Tensor zählt gleich, wie im veröffentlichten Code; Einträge: dasselbe, jeder Eintrag zählt gleich, wie im Artikel; kleinste Quadrate: an die Skala, die den Gewichten des Experten am nächsten kommt, was nicht das Beste für seine Aufgabe sein muss. Die zusammengeführten Gewichte sind dieselben.</translation>
</message>
<message>
<source>What is kept of each expert's difference from the merged model. entries: the largest of the whole model, 8 bytes each; low rank: of every matrix the leading singular triplets, and other tensors whole.</source>
<translation>Was vom Unterschied jedes Experten zum zusammengeführten Modell behalten wird. Einträge: die größten des ganzen Modells, je 8 Byte; niedriger Rang: von jeder Matrix die führenden Singulärtripel, andere Tensoren ganz.</translation>
</message>
<message>
<source>Where both signs of an entry weigh the same, mergekit takes the positive one.</source>
<translation>Wo beide Vorzeichen eines Eintrags gleich viel wiegen, nimmt mergekit das positive.</translation>
</message>
<message>
<source>Where the experts' changes to a tensor point apart on average, mergekit goes away from them, and here the base is kept; an expert that does not change a tensor is left out of it, where mergekit counts its cosines as 0.</source>
<translation>Wo die Änderungen der Experten an einem Tensor im Mittel auseinanderzeigen, entfernt sich mergekit von ihnen, und hier bleibt die Basis; ein Experte, der einen Tensor nicht ändert, bleibt dort weg, wo mergekit seine Kosinus als 0 zählt.</translation>
</message>
<message>
<source>Where the mean squares of all experts' changes to a tensor sum to less than this, their coefficients are equal, as in mergekit; 0 weights them by their mean squares however small these are.</source>
<translation>Wo die mittleren Quadrate aller Änderungen der Experten an einem Tensor zusammen kleiner sind als dies, sind ihre Koeffizienten gleich, wie in mergekit; 0 gewichtet sie nach ihren mittleren Quadraten, wie klein diese auch sind.</translation>
</message>
<message>
<source>Which sign counts where both weigh the same, as they often do in 16-bit models. majority: the one that most entries of the tensor elected; positive: as in mergekit.</source>
<translation>Welches Vorzeichen zählt, wo beide gleich viel wiegen, was in 16-Bit-Modellen oft vorkommt. Mehrheit: das, das die meisten Einträge des Tensors gewählt haben; positiv: wie in mergekit.</translation>
</message>
<message>
<source>With modules</source>
<translation>Mit Modulen</translation>
</message>
<message>
<source>With the experts' data</source>
<translation>Mit den Daten der Experten</translation>
</message>
<message>
<source>Your own</source>
<translation>Eigene</translation>
</message>
<message>
<source>`{name}` has {what} here</source>
<translation>`{name}` hat hier {what}</translation>
</message>
<message>
<source>`{plain}` has {theirs} rows in {name} but {rows} in the base: {tokens} {theirs2}{plain2}. Choose under Vocabulary (`vocabulary` in a recipe) to have rows matched by token (tokens), or the base's kept (base).</source>
<translation>`{plain}` hat {theirs} Zeilen in {name}, aber {rows} in der Basis: {tokens} {theirs2}{plain2}. Wählen Sie unter Vokabular (`vocabulary` in einem Rezept), ob Zeilen nach Token zugeordnet (tokens) oder die der Basis behalten werden (base).</translation>
</message>
<message>
<source>`{plain}` is {times} in {name} but {times2} in the base; choose experts fine-tuned from this base.</source>
<translation>`{plain}` ist {times} in {name}, aber {times2} in der Basis; wählen Sie Experten, die aus dieser Basis feinabgestimmt wurden.</translation>
</message>
<message>
<source>`{plain}` should be in {where} but is not. Download that file again.</source>
<translation>`{plain}` sollte in {where} sein, ist es aber nicht. Laden Sie diese Datei erneut herunter.</translation>
</message>
<message>
<source>`{prefix}{key}` is {get}, in the base {get2}</source>
<translation>`{prefix}{key}` ist {get}, in der Basis {get2}</translation>
</message>
<message>
<source>a buffer that the base does not have: dropped</source>
<translation>ein Puffer, den die Basis nicht hat: verworfen</translation>
</message>
<message>
<source>a position embedding has no inputs to decorrelate: averaged</source>
<translation>eine Positionseinbettung hat keine Eingänge zu dekorrelieren: gemittelt</translation>
</message>
<message>
<source>a row for each token: kept from the base, as the recipe says of the vocabulary</source>
<translation>eine Zeile je Token: aus der Basis, wie das Rezept über das Vokabular sagt</translation>
</message>
<message>
<source>a scalar</source>
<translation>ein Skalar</translation>
</message>
<message>
<source>a task head: averaged</source>
<translation>ein Aufgabenkopf: gemittelt</translation>
</message>
<message>
<source>about {over}</source>
<translation>etwa {over}</translation>
</message>
<message>
<source>about {ratio}</source>
<translation>etwa {ratio}</translation>
</message>
<message>
<source>accuracy</source>
<translation>Genauigkeit</translation>
</message>
<message>
<source>adam: as published, from the sum of the task vectors; stops long before the minimum, as no entry moves by more than about steps · learning rate. closed: the minimiser of the same loss, of least norm, which uses neither.</source>
<translation>Adam: wie veröffentlicht, von der Summe der Aufgabenvektoren aus; hält lange vor dem Minimum an, da sich kein Eintrag um mehr als etwa Schritte · Lernrate bewegt. Geschlossen: das Minimum desselben Verlusts mit der kleinsten Norm, das keines von beiden braucht.</translation>
</message>
<message>
<source>all experts are {model_class}</source>
<translation>alle Experten sind {model_class}</translation>
</message>
<message>
<source>all experts have the base's labels</source>
<translation>alle Experten haben die Labels der Basis</translation>
</message>
<message>
<source>all experts have the same labels</source>
<translation>alle Experten haben dieselben Labels</translation>
</message>
<message>
<source>all models</source>
<translation>alle Modelle</translation>
</message>
<message>
<source>alone is right</source>
<translation>hat allein recht</translation>
</message>
<message>
<source>an embedding has no inputs to decorrelate: averaged</source>
<translation>eine Einbettung hat keine Eingänge zu dekorrelieren: gemittelt</translation>
</message>
<message>
<source>as AdaRank starts</source>
<translation>wie AdaRank beginnt</translation>
</message>
<message>
<source>as the recipe says (heads: {value})</source>
<translation>wie das Rezept sagt (heads: {value})</translation>
</message>
<message>
<source>as {scope} does</source>
<translation>wie {scope}</translation>
</message>
<message>
<source>at least </source>
<translation>mindestens </translation>
</message>
<message>
<source>attention</source>
<translation>Attention</translation>
</message>
<message>
<source>attention heads</source>
<translation>Attention-Köpfe</translation>
</message>
<message>
<source>averaged</source>
<translation>gemittelt</translation>
</message>
<message>
<source>blocks {blocks}</source>
<translation>Blöcke {blocks}</translation>
</message>
<message>
<source>cap δ {delta}</source>
<translation>Obergrenze δ {delta}</translation>
</message>
<message>
<source>causal-lm</source>
<translation>Sprachmodell</translation>
</message>
<message>
<source>choosing what is kept of each expert</source>
<translation>Auswahl dessen, was von jedem Experten bleibt</translation>
</message>
<message>
<source>clip-zero-shot</source>
<translation>CLIP ohne Beispiele</translation>
</message>
<message>
<source>config.json points to code (`auto_map`), which is neither run nor copied. A copy of this config still does: put that code beside it if you need and trust it.</source>
<translation>config.json verweist auf Code (`auto_map`), der weder ausgeführt noch kopiert wird. Eine Kopie dieser Konfiguration tut es weiterhin: Legen Sie den Code daneben, wenn Sie ihn brauchen und ihm vertrauen.</translation>
</message>
<message>
<source>copied</source>
<translation>kopiert</translation>
</message>
<message>
<source>correcting features of {name}</source>
<translation>Merkmale von {name} werden korrigiert</translation>
</message>
<message>
<source>default</source>
<translation>Standard</translation>
</message>
<message>
<source>dropped</source>
<translation>verworfen</translation>
</message>
<message>
<source>embedding</source>
<translation>Einbettung</translation>
</message>
<message>
<source>error</source>
<translation>Fehler</translation>
</message>
<message>
<source>every expert has one output</source>
<translation>jeder Experte hat einen Ausgang</translation>
</message>
<message>
<source>exact-match</source>
<translation>exakte Übereinstimmung</translation>
</message>
<message>
<source>experts' models</source>
<translation>Modelle der Experten</translation>
</message>
<message>
<source>f1</source>
<translation>F1</translation>
</message>
<message>
<source>float32 where experts are summed up, float64 where the system is solved</source>
<translation>float32 beim Summieren der Experten, float64 beim Lösen des Systems</translation>
</message>
<message>
<source>from names alone</source>
<translation>allein aus den Namen</translation>
</message>
<message>
<source>from {low} to {high}</source>
<translation>{low} bis {high}</translation>
</message>
<message>
<source>has the smaller loss</source>
<translation>hat den kleineren Verlust</translation>
</message>
<message>
<source>heterogeneous</source>
<translation>heterogen</translation>
</message>
<message>
<source>homogeneous</source>
<translation>homogen</translation>
</message>
<message>
<source>id {index} is {first} in the base and {second} in the expert</source>
<translation>ID {index} ist {first} in der Basis und {second} im Experten</translation>
</message>
<message>
<source>image geometry</source>
<translation>Bildgeometrie</translation>
</message>
<message>
<source>image-classification</source>
<translation>Bildklassifikation</translation>
</message>
<message>
<source>in {plain} and in {plain2}</source>
<translation>in {plain} und in {plain2}</translation>
</message>
<message>
<source>is allowed</source>
<translation>erlaubt</translation>
</message>
<message>
<source>is free</source>
<translation>frei</translation>
</message>
<message>
<source>it from the models</source>
<translation>diesen aus den Modellen</translation>
</message>
<message>
<source>it names no model class</source>
<translation>sie nennt keine Modellklasse</translation>
</message>
<message>
<source>kept from base</source>
<translation>aus der Basis</translation>
</message>
<message>
<source>kept per expert</source>
<translation>je Experte</translation>
</message>
<message>
<source>language</source>
<translation>Sprache</translation>
</message>
<message>
<source>layer-wise: a coefficient for each expert and tensor; task-wise: one for each expert; ++: of task vectors that were trimmed and agree in sign, as in TIES-Merging.</source>
<translation>Schichtweise: ein Koeffizient für jeden Experten und Tensor; aufgabenweise: einer für jeden Experten; ++: von Aufgabenvektoren, die gekürzt sind und im Vorzeichen übereinstimmen, wie in TIES-Merging.</translation>
</message>
<message>
<source>learning with {title}</source>
<translation>Lernen mit {title}</translation>
</message>
<message>
<source>less than once in 1000 times (p &lt; 0.001)</source>
<translation>seltener als einmal in 1000 Fällen (p &lt; 0,001)</translation>
</message>
<message>
<source>looking at the whole model</source>
<translation>das ganze Modell wird betrachtet</translation>
</message>
<message>
<source>magnitude: in proportion to the mean magnitude of what is left, adding up to 1, as in the paper; equal: 1 for every expert, as in its code, which scales the sum by 0.7.</source>
<translation>Betrag: im Verhältnis zum mittleren Betrag dessen, was übrig ist, zusammen 1, wie im Artikel; gleich: 1 für jeden Experten, wie in seinem Code, der die Summe mit 0,7 skaliert.</translation>
</message>
<message>
<source>matrix of a linear layer</source>
<translation>Matrix einer linearen Schicht</translation>
</message>
<message>
<source>matrix of a linear layer, stored inputs × outputs</source>
<translation>Matrix einer linearen Schicht, gespeichert als Eingänge × Ausgänge</translation>
</message>
<message>
<source>matthews</source>
<translation>Matthews</translation>
</message>
<message>
<source>mean coefficient λ</source>
<translation>mittlerer Koeffizient λ</translation>
</message>
<message>
<source>mean of the mask</source>
<translation>Mittel der Maske</translation>
</message>
<message>
<source>mean share</source>
<translation>mittlerer Anteil</translation>
</message>
<message>
<source>mean: averaged over the experts that agree, as in the TIES paper; sum: added up, as in FusionBench and, with weights not normalised, in mergekit.</source>
<translation>Mittel: gemittelt über die übereinstimmenden Experten, wie im Artikel zu TIES; Summe: addiert, wie in FusionBench und, mit nicht normierten Gewichten, in mergekit.</translation>
</message>
<message>
<source>measuring the gradients of {name}</source>
<translation>Gradienten von {name} werden gemessen</translation>
</message>
<message>
<source>measuring the inputs of {name}</source>
<translation>Eingaben von {name} werden gemessen</translation>
</message>
<message>
<source>merged</source>
<translation>zusammengeführt</translation>
</message>
<message>
<source>merged model</source>
<translation>zusammengeführtes Modell</translation>
</message>
<message>
<source>mergekit counts experts alike where mean squares sum to less than 1e-6.</source>
<translation>mergekit zählt Experten gleich, wo mittlere Quadrate zusammen kleiner als 1e-6 sind.</translation>
</message>
<message>
<source>mergekit draws other random numbers, and rescales what it keeps so that the sum of magnitudes of each tensor stays; here each entry is divided by its chance.</source>
<translation>mergekit zieht andere Zufallszahlen und reskaliert, was es behält, sodass die Summe der Beträge jedes Tensors bleibt; hier wird jeder Eintrag durch seine Wahrscheinlichkeit geteilt.</translation>
</message>
<message>
<source>mergekit draws other random numbers, and rescales what it keeps tensor by tensor.</source>
<translation>mergekit zieht andere Zufallszahlen und reskaliert, was es behält, Tensor für Tensor.</translation>
</message>
<message>
<source>mergekit goes away from experts whose changes point apart, and counts those that do not change a tensor; here the base is kept, and they are left out.</source>
<translation>mergekit entfernt sich von Experten, deren Änderungen auseinanderzeigen, und zählt die mit, die einen Tensor nicht ändern; hier bleibt die Basis, und diese bleiben weg.</translation>
</message>
<message>
<source>mergekit keeps the largest entries of each tensor, not of the whole model.</source>
<translation>mergekit behält die größten Einträge jedes Tensors, nicht des ganzen Modells.</translation>
</message>
<message>
<source>mergekit rounds the importance of entries in the file's number format, and takes its quantiles from a random million of them; here all count, in float64.</source>
<translation>mergekit rundet die Wichtigkeit der Einträge im Zahlenformat der Datei und nimmt seine Quantile aus einer zufälligen Million davon; hier zählen alle, in float64.</translation>
</message>
<message>
<source>mergekit takes the mean on the sphere of whole weights, the base's among them; here of the experts' changes to the base.</source>
<translation>mergekit nimmt das Mittel auf der Sphäre der ganzen Gewichte, die der Basis eingeschlossen; hier das der Änderungen der Experten gegenüber der Basis.</translation>
</message>
<message>
<source>mixture of experts</source>
<translation>Mixture of Experts</translation>
</message>
<message>
<source>model: magnitudes and scores are compared over the whole model, as in the paper, which reads the experts four times more; tensor: within each tensor.</source>
<translation>Modell: Beträge und Bewertungen werden über das ganze Modell verglichen, wie im Artikel, was die Experten viermal öfter liest; Tensor: innerhalb jedes Tensors.</translation>
</message>
<message>
<source>model: the largest entries of the whole model, as in the paper, which keeps more of the tensors that changed most and reads the experts twice more; tensor: of each tensor, as mergekit does.</source>
<translation>Modell: die größten Einträge des ganzen Modells, wie im Artikel, was mehr von den Tensoren behält, die sich am meisten geändert haben, und die Experten zweimal öfter liest; Tensor: die jedes Tensors, wie in mergekit.</translation>
</message>
<message>
<source>multiple-choice</source>
<translation>Mehrfachauswahl</translation>
</message>
<message>
<source>names {pattern}</source>
<translation>Namen {pattern}</translation>
</message>
<message>
<source>no cap</source>
<translation>keine Obergrenze</translation>
</message>
<message>
<source>no expert has this tensor: kept from the base</source>
<translation>kein Experte hat diesen Tensor: aus der Basis</translation>
</message>
<message>
<source>no floating-point format</source>
<translation>kein Gleitkommaformat</translation>
</message>
<message>
<source>no token is new</source>
<translation>kein Token ist neu</translation>
</message>
<message>
<source>norm</source>
<translation>Norm</translation>
</message>
<message>
<source>norm epsilon</source>
<translation>Epsilon der Norm</translation>
</message>
<message>
<source>norm placement</source>
<translation>Stelle der Norm</translation>
</message>
<message>
<source>not a matrix (bias): averaged</source>
<translation>keine Matrix (Bias): gemittelt</translation>
</message>
<message>
<source>not a matrix (convolution): averaged</source>
<translation>keine Matrix (Faltung): gemittelt</translation>
</message>
<message>
<source>not a matrix (norm): averaged</source>
<translation>keine Matrix (Norm): gemittelt</translation>
</message>
<message>
<source>not floating point</source>
<translation>keine Gleitkommazahlen</translation>
</message>
<message>
<source>not rescaling</source>
<translation>ohne Reskalierung</translation>
</message>
<message>
<source>not the matrix of a linear layer: averaged</source>
<translation>nicht die Matrix einer linearen Schicht: gemittelt</translation>
</message>
<message>
<source>note</source>
<translation>Hinweis</translation>
</message>
<message>
<source>of TensorFlow, Flax or ONNX. Merging needs the safetensors weights instead.</source>
<translation>von TensorFlow, Flax oder ONNX. Zum Zusammenführen braucht es die Gewichte in safetensors.</translation>
</message>
<message>
<source>ok</source>
<translation>in Ordnung</translation>
</message>
<message>
<source>once in {round} times (p = {p})</source>
<translation>einmal in {round} Fällen (p = {p})</translation>
</message>
<message>
<source>one of them</source>
<translation>eines davon</translation>
</message>
<message>
<source>other</source>
<translation>andere</translation>
</message>
<message>
<source>other models</source>
<translation>andere Modelle</translation>
</message>
<message>
<source>overridden: {join}</source>
<translation>Ausnahme: {join}</translation>
</message>
<message>
<source>overrides[{place}] ({describe}) changes no tensor of this merge; correct or remove it.</source>
<translation>overrides[{place}] ({describe}) ändert keinen Tensor dieses Merges; berichtigen oder entfernen Sie es.</translation>
</message>
<message>
<source>p = 0.5</source>
<translation>p = 0,5</translation>
</message>
<message>
<source>p = 0.9</source>
<translation>p = 0,9</translation>
</message>
<message>
<source>paper</source>
<translation>Artikel</translation>
</message>
<message>
<source>paper, AdaMerging</source>
<translation>Artikel, AdaMerging</translation>
</message>
<message>
<source>paper, task arithmetic</source>
<translation>Artikel, Aufgabenarithmetik</translation>
</message>
<message>
<source>pearson</source>
<translation>Pearson</translation>
</message>
<message>
<source>perplexity</source>
<translation>Perplexität</translation>
</message>
<message>
<source>plain sum</source>
<translation>einfache Summe</translation>
</message>
<message>
<source>position encoding</source>
<translation>Positionscodierung</translation>
</message>
<message>
<source>published</source>
<translation>veröffentlicht</translation>
</message>
<message>
<source>published code</source>
<translation>veröffentlichter Code</translation>
</message>
<message>
<source>published script</source>
<translation>veröffentlichtes Skript</translation>
</message>
<message>
<source>quoted</source>
<translation>genannt</translation>
</message>
<message>
<source>regression</source>
<translation>Regression</translation>
</message>
<message>
<source>see https://pytorch.org/get-started/locally</source>
<translation>siehe https://pytorch.org/get-started/locally</translation>
</message>
<message>
<source>shard {split}</source>
<translation>Shard {split}</translation>
</message>
<message>
<source>share of directions kept</source>
<translation>Anteil behaltener Richtungen</translation>
</message>
<message>
<source>share of entries kept</source>
<translation>Anteil behaltener Einträge</translation>
</message>
<message>
<source>share of features corrected</source>
<translation>korrigierter Anteil der Merkmale</translation>
</message>
<message>
<source>spearman</source>
<translation>Spearman</translation>
</message>
<message>
<source>split float32 where experts are summed up, float64 where the system is solved</source>
<translation>geteiltes float32 beim Summieren der Experten, float64 beim Lösen des Systems</translation>
</message>
<message>
<source>task head: every expert's own is saved in heads/, the base's stays in the model</source>
<translation>Aufgabenkopf: Der eigene jedes Experten wird in heads/ gespeichert, der der Basis bleibt im Modell</translation>
</message>
<message>
<source>task head: saved with its expert in heads/{because}</source>
<translation>Aufgabenkopf: mit seinem Experten in heads/ gespeichert{because}</translation>
</message>
<message>
<source>task-arithmetic: the mask alone is learned; adamerging: together with a coefficient for each expert and tensor.</source>
<translation>Aufgabenarithmetik: Nur die Maske wird gelernt; AdaMerging: zusammen mit einem Koeffizienten für jeden Experten und Tensor.</translation>
</message>
<message>
<source>tensor: each tensor is weighted by the norms of its own changes, as in the paper; model: all tensors alike, by the norms of the whole task vectors. The paper derives inverse squares; its formula, which counts here, has inverse norms.</source>
<translation>Tensor: Jeder Tensor wird nach den Normen seiner eigenen Änderungen gewichtet, wie im Artikel; Modell: alle Tensoren gleich, nach den Normen der ganzen Aufgabenvektoren. Der Artikel leitet inverse Quadrate her; seine Formel, die hier gilt, hat inverse Normen.</translation>
</message>
<message>
<source>text-classification</source>
<translation>Textklassifikation</translation>
</message>
<message>
<source>text-to-text</source>
<translation>Text zu Text</translation>
</message>
<message>
<source>the base</source>
<translation>die Basis</translation>
</message>
<message>
<source>the base has no such tensor: saved with its expert in heads/</source>
<translation>die Basis hat keinen solchen Tensor: mit seinem Experten in heads/ gespeichert</translation>
</message>
<message>
<source>the cap shortens {over}</source>
<translation>die Obergrenze kürzt {over}</translation>
</message>
<message>
<source>the experts are of different classes ({join})</source>
<translation>die Experten sind von verschiedenen Klassen ({join})</translation>
</message>
<message>
<source>the experts' {join}</source>
<translation>{join} der Experten</translation>
</message>
<message>
<source>the labels have no names, so that they may mean different things (heads: merge in a recipe merges them)</source>
<translation>die Labels haben keine Namen, sodass sie Verschiedenes bedeuten können (heads: merge in einem Rezept führt sie zusammen)</translation>
</message>
<message>
<source>the mean of the experts', as the base has none{because}</source>
<translation>das Mittel der Experten, da die Basis keinen hat{because}</translation>
</message>
<message>
<source>the output's {name}</source>
<translation>{name} der Ausgabe</translation>
</message>
<message>
<source>the package that offers {value}</source>
<translation>dem Paket, das {value} anbietet</translation>
</message>
<message>
<source>the report: comparing the experts</source>
<translation>Bericht: Experten werden verglichen</translation>
</message>
<message>
<source>the report: merging</source>
<translation>Bericht: Merge läuft</translation>
</message>
<message>
<source>the report: spectra</source>
<translation>Bericht: Spektren</translation>
</message>
<message>
<source>the task vector of the one expert left is taken as it is</source>
<translation>der Aufgabenvektor des einen verbliebenen Experten wird genommen, wie er ist</translation>
</message>
<message>
<source>the tensor stays as in the base</source>
<translation>der Tensor bleibt wie in der Basis</translation>
</message>
<message>
<source>the vocabulary head follows the embedding: averaged</source>
<translation>der Vokabularkopf richtet sich nach der Einbettung: gemittelt</translation>
</message>
<message>
<source>there is one expert</source>
<translation>es gibt einen Experten</translation>
</message>
<message>
<source>this language</source>
<translation>de</translation>
</message>
<message>
<source>tied to {tied_to}, which is in the merged model: dropped</source>
<translation>gebunden an {tied_to}, das im zusammengeführten Modell ist: verworfen</translation>
</message>
<message>
<source>tied to {tied_to}: merged as that is</source>
<translation>gebunden an {tied_to}: zusammengeführt wie dieses</translation>
</message>
<message>
<source>token-classification</source>
<translation>Tokenklassifikation</translation>
</message>
<message>
<source>too old</source>
<translation>zu alt</translation>
</message>
<message>
<source>training the router</source>
<translation>Router wird trainiert</translation>
</message>
<message>
<source>training the routers of the blocks</source>
<translation>Router der Blöcke werden trainiert</translation>
</message>
<message>
<source>transformers has no {plain} for it</source>
<translation>transformers hat dafür kein {plain}</translation>
</message>
<message>
<source>usual without validation</source>
<translation>üblich ohne Validierung</translation>
</message>
<message>
<source>vision</source>
<translation>Bild</translation>
</message>
<message>
<source>vision models</source>
<translation>Bildmodelle</translation>
</message>
<message>
<source>warning</source>
<translation>Warnung</translation>
</message>
<message>
<source>weight of {name} {weight}</source>
<translation>Gewicht von {name} {weight}</translation>
</message>
<message>
<source>weight of {n} {w}</source>
<translation>Gewicht von {n} {w}</translation>
</message>
<message>
<source>with equal, published script</source>
<translation>mit gleich, veröffentlichtes Skript</translation>
</message>
<message>
<source>with magnitude</source>
<translation>mit Betrag</translation>
</message>
<message>
<source>with sum, FusionBench</source>
<translation>mit Summe, FusionBench</translation>
</message>
<message>
<source>writing what belongs to each expert</source>
<translation>Module der Experten werden geschrieben</translation>
</message>
<message>
<source>{above} of {total} matrices</source>
<translation>{above} von {total} Matrizen</translation>
</message>
<message>
<source>{abs} tokens</source>
<translation>{abs} Token</translation>
</message>
<message>
<source>{change} times the base's norm</source>
<translation>das {change}-Fache der Norm der Basis</translation>
</message>
<message>
<source>{count} experts</source>
<translation>{count} Experten</translation>
</message>
<message>
<source>{count} tensor</source>
<translation>{count} Tensor</translation>
</message>
<message>
<source>{count} tensors</source>
<translation>{count} Tensoren</translation>
</message>
<message>
<source>{cut} directions of the inputs were lost in rounding and left out; raise the ridge.</source>
<translation>{cut} Richtungen der Eingaben gingen in der Rundung verloren und blieben weg; erhöhen Sie den Ridge.</translation>
</message>
<message>
<source>{each}: left out of this tensor.</source>
<translation>{each}: in diesem Tensor weggelassen.</translation>
</message>
<message>
<source>{first} and {second} have different labels</source>
<translation>{first} und {second} haben verschiedene Labels</translation>
</message>
<message>
<source>{inputs} input</source>
<translation>{inputs} Eingang</translation>
</message>
<message>
<source>{left} (limit: {EXACT}).</source>
<translation>{left} (Grenze: {EXACT}).</translation>
</message>
<message>
<source>{left}: less than a thirtieth of the rounding of {source}.</source>
<translation>{left}: weniger als ein Dreißigstel der Rundung von {source}.</translation>
</message>
<message>
<source>{len} new tokens ({listing}) are added to the merged model</source>
<translation>{len} neue Token ({listing}) kommen zum zusammengeführten Modell hinzu</translation>
</message>
<message>
<source>{len} of {len2} experts do not change this tensor and were left out of it.</source>
<translation>Bei {len} von {len2} Experten ist dieser Tensor unverändert; ohne sie kombiniert.</translation>
</message>
<message>
<source>{len} of {total} experts do not change this tensor, or less than 1e-5 of what is usual here, and were left out.</source>
<translation>Bei {len} von {total} Experten ist dieser Tensor unverändert, oder um weniger als 1e-5 des hier Üblichen geändert; ohne sie kombiniert.</translation>
</message>
<message>
<source>{len} tensors are dropped; the layers table says why.</source>
<translation>{len} Tensoren werden verworfen; die Tabelle der Schichten sagt, warum.</translation>
</message>
<message>
<source>{len} tensors are {second}, in the base {first}</source>
<translation>{len} Tensoren sind {second}, in der Basis {first}</translation>
</message>
<message>
<source>{len} tensors have another prefix (`{plain}` is `{plain2}` in the base): matched by the rest of the name.</source>
<translation>{len} Tensoren haben ein anderes Präfix (`{plain}` ist `{plain2}` in der Basis): nach dem Rest des Namens zugeordnet.</translation>
</message>
<message>
<source>{len} tokens that not every expert has are left out ({listing})</source>
<translation>{len} Token, die nicht jeder Experte hat, bleiben weg ({listing})</translation>
</message>
<message>
<source>{names} and {len} more</source>
<translation>{names} und {len} weitere</translation>
</message>
<message>
<source>{name} (ROCm, not tried yet)</source>
<translation>{name} (ROCm, noch nicht erprobt)</translation>
</message>
<message>
<source>{name} means nothing to {method}: left out.</source>
<translation>{name} bedeutet für {method} nichts: weggelassen.</translation>
</message>
<message>
<source>{name}: {two}, in the base {one}</source>
<translation>{name}: {two}, in der Basis {one}</translation>
</message>
<message>
<source>{outputs} output</source>
<translation>{outputs} Ausgang</translation>
</message>
<message>
<source>{over} above a cap of δ = {delta}</source>
<translation>{over} über einer Obergrenze von δ = {delta}</translation>
</message>
<message>
<source>{over} above their cap</source>
<translation>{over} über ihrer Obergrenze</translation>
</message>
<message>
<source>{percent} of the base's norm</source>
<translation>{percent} der Norm der Basis</translation>
</message>
<message>
<source>{p} times in 100 (p = {p2})</source>
<translation>in {p} von 100 Fällen (p = {p2})</translation>
</message>
<message>
<source>{reason} (in {found} of {total} experts)</source>
<translation>{reason} (in {found} von {total} Experten)</translation>
</message>
<message>
<source>{reason}; matrix {index} of {count} in its tensor</source>
<translation>{reason}; Matrix {index} von {count} in ihrem Tensor</translation>
</message>
<message>
<source>{reason}; the {label} part of a fused projection</source>
<translation>{reason}; der Teil {label} einer zusammengefassten Projektion</translation>
</message>
<message>
<source>{reason}; with {side} {title} would lose its change: averaged</source>
<translation>{reason}; mit {side} verlöre {title} seine Änderung: gemittelt</translation>
</message>
<message>
<source>{relative_norm} × the experts' mean norm</source>
<translation>{relative_norm} × die mittlere Norm der Experten</translation>
</message>
<message>
<source>{sentence}: BF16 rounds to {coarse} of a weight, about as much as fine-tuning changes it. Use base and expert in the format the expert was tuned in.</source>
<translation>{sentence}: BF16 rundet auf {coarse} eines Gewichts, etwa so viel, wie Feinabstimmung es ändert. Nehmen Sie Basis und Experten in dem Format, in dem der Experte feinabgestimmt wurde.</translation>
</message>
<message>
<source>{sentence}: both are widened before they are subtracted.</source>
<translation>{sentence}: Beide werden erweitert, bevor sie voneinander abgezogen werden.</translation>
</message>
<message>
<source>{title} ({name}) is of architecture {architecture}, which this build of torch has no code for (it has {join}); install another build, {GET_TORCH}.</source>
<translation>{title} ({name}) hat die Architektur {architecture}, für die dieser Build von torch keinen Code hat (er hat {join}); installieren Sie einen anderen, {GET_TORCH}.</translation>
</message>
<message>
<source>{title} applies to every entry</source>
<translation>{title} gilt für jeden Eintrag</translation>
</message>
<message>
<source>{title} applies to tensors of any shape</source>
<translation>{title} gilt für Tensoren jeder Form</translation>
</message>
<message>
<source>{title} cannot merge {found} of {total} experts: averaged</source>
<translation>{title} kann {found} von {total} Experten nicht zusammenführen: gemittelt</translation>
</message>
<message>
<source>{title} leaves differences to a merge without a cap; take the cap away.</source>
<translation>{title} hinterlässt Unterschiede zu einem Merge ohne Obergrenze; nehmen Sie die Obergrenze weg.</translation>
</message>
<message>
<source>{title} leaves modules for the whole model: choose it for the recipe, and leave its name and others with modules out of the rules.</source>
<translation>{title} hinterlässt Module für das ganze Modell: Wählen Sie sie für das Rezept, und lassen Sie diese und andere Methoden mit Modulen aus den Ausnahmen weg.</translation>
</message>
<message>
<source>{title} makes weights for each example, and transformers holds `{plain}` in other pieces than its files; choose another method.</source>
<translation>{title} macht Gewichte für jedes Beispiel, und transformers hält `{plain}` in anderen Stücken als seine Dateien; wählen Sie eine andere Methode.</translation>
</message>
<message>
<source>{title} merges {least}{least2} experts, but there is only {found}; add more, or choose another method.</source>
<translation>{title} führt {least}{least2} Experten zusammen, aber es gibt nur {found}; fügen Sie weitere hinzu, oder wählen Sie eine andere Methode.</translation>
</message>
<message>
<source>{title} needs MLP blocks, and none of this model is known; choose another.</source>
<translation>{title} braucht MLP-Blöcke, und von diesem Modell ist keiner bekannt; wählen Sie eine andere.</translation>
</message>
<message>
<source>{title} needs inputs of each expert's task, but none are given for {names}; add tasks with `calibration` data to the recipe, or choose a method without data.</source>
<translation>{title} braucht Eingaben zur Aufgabe jedes Experten, aber für {names} gibt es keine; fügen Sie dem Rezept Aufgaben mit Daten unter `calibration` hinzu, oder wählen Sie eine Methode ohne Daten.</translation>
</message>
<message>
<source>{title} puts experts beside linear layers, and `{plain}` belongs to none; keep or average it by a rule, or choose another method.</source>
<translation>{title} stellt Experten neben lineare Schichten, und `{plain}` gehört zu keiner; behalten oder mitteln Sie ihn durch eine Ausnahme, oder wählen Sie eine andere Methode.</translation>
</message>
<message>
<source>{tokens} of {max} token ids mean something else than in the base: {plain}. </source>
<translation>{tokens} von {max} Token-IDs bedeuten etwas anderes als in der Basis: {plain}. </translation>
</message>
<message>
<source>{what}: copied from the base</source>
<translation>{what}: aus der Basis kopiert</translation>
</message>
<message>
<source>{what}; {human_bytes} allowed.</source>
<translation>{what}; {human_bytes} erlaubt.</translation>
</message>
<message>
<source>{what}; {human_bytes} free.</source>
<translation>{what}; {human_bytes} frei.</translation>
</message>
<message>
<source>{where} is not in all experts in that shape</source>
<translation>{where} ist nicht in allen Experten in dieser Form</translation>
</message>
<message>
<source>|cosine| above which the way is the straight line; fine-tunes are above 0.9995.</source>
<translation>|Kosinus|, ab dem der Weg die gerade Linie ist; Feinabstimmungen liegen über 0,9995.</translation>
</message>
<message>
<source>γ = {gamma} exceeds τ only because the mean log energy, {mean}, is near zero (‖ΔW‖ near 1), where γ has a pole; the experts hardly differ in scale. Raise τ to treat the tensor as homogeneous.</source>
<translation>γ = {gamma} übersteigt τ nur, weil die mittlere Log-Energie, {mean}, nahe null ist (‖ΔW‖ nahe 1), wo γ einen Pol hat; die Experten unterscheiden sich kaum in der Größe. Erhöhen Sie τ, um den Tensor als homogen zu behandeln.</translation>
</message>
<message>
<source>γ = {gamma} exceeds τ only because the mean log energy, {mean}, is near zero; the experts hardly differ in scale. Raise tau to treat them as homogeneous.</source>
<translation>γ = {gamma} übersteigt τ nur, weil die mittlere Log-Energie, {mean}, nahe null ist; die Experten unterscheiden sich kaum in der Größe. Erhöhen Sie τ, um sie als homogen zu behandeln.</translation>
</message>
<message>
<source>γ and the merge are those of the other {left}</source>
<translation>γ und der Merge sind die der anderen {left}</translation>
</message>
<message>
<source>γ is unreliable here</source>
<translation>γ ist hier unzuverlässig</translation>
</message>
<message>
<source>γ near its pole</source>
<translation>γ nahe seinem Pol</translation>
</message>
</context>
<context>
<name>choices</name>
<message>
<source>Analyse</source>
<translation>Experten vergleichen</translation>
</message>
<message>
<source>Cached models</source>
<translation>Modelle im Cache suchen</translation>
</message>
<message>
<source>Compare</source>
<translation>Methoden vergleichen</translation>
</message>
<message>
<source>Compare examples</source>
<translation>Antworten vergleichen</translation>
</message>
<message>
<source>Configure</source>
<translation>Einstellungen übernehmen</translation>
</message>
<message>
<source>Convert</source>
<translation>Umwandeln</translation>
</message>
<message>
<source>Covariances</source>
<translation>Kovarianzen</translation>
</message>
<message>
<source>Describe tasks</source>
<translation>Aufgaben lesen</translation>
</message>
<message>
<source>Difference</source>
<translation>Unterschied zweier Merges</translation>
</message>
<message>
<source>Distribution</source>
<translation>Verteilung</translation>
</message>
<message>
<source>Evaluate</source>
<translation>Bewertung</translation>
</message>
<message>
<source>Export</source>
<translation>Export</translation>
</message>
<message>
<source>Layer covariances</source>
<translation>Kovarianzen einer Schicht</translation>
</message>
<message>
<source>Load recipe</source>
<translation>Rezept laden</translation>
</message>
<message>
<source>MLP down</source>
<translation>MLP Down</translation>
</message>
<message>
<source>MLP gate</source>
<translation>MLP Gate</translation>
</message>
<message>
<source>MLP gate+up</source>
<translation>MLP Gate+Up</translation>
</message>
<message>
<source>MLP up</source>
<translation>MLP Up</translation>
</message>
<message>
<source>Merge</source>
<translation>Merge</translation>
</message>
<message>
<source>Plan</source>
<translation>Plan</translation>
</message>
<message>
<source>Read stores</source>
<translation>Behaltene Merges lesen</translation>
</message>
<message>
<source>Report</source>
<translation>Bericht</translation>
</message>
<message>
<source>Routes</source>
<translation>Routing</translation>
</message>
<message>
<source>Sample merges</source>
<translation>Probe-Merges</translation>
</message>
<message>
<source>Scan</source>
<translation>Ordner durchsuchen</translation>
</message>
<message>
<source>Spectrum</source>
<translation>Spektrum</translation>
</message>
<message>
<source>Subspaces</source>
<translation>Unterräume</translation>
</message>
<message>
<source>Try</source>
<translation>Erproben</translation>
</message>
<message>
<source>Tune</source>
<translation>Abstimmung</translation>
</message>
<message>
<source>adam</source>
<translation>Adam</translation>
</message>
<message>
<source>adamerging</source>
<translation>AdaMerging</translation>
</message>
<message>
<source>agreeing</source>
<translation>wenn einig</translation>
</message>
<message>
<source>always</source>
<translation>immer</translation>
</message>
<message>
<source>attention output</source>
<translation>Attention-Ausgang</translation>
</message>
<message>
<source>automatic</source>
<translation>automatisch</translation>
</message>
<message>
<source>bias</source>
<translation>Bias</translation>
</message>
<message>
<source>buffer</source>
<translation>Puffer</translation>
</message>
<message>
<source>closed</source>
<translation>geschlossen</translation>
</message>
<message>
<source>convolution</source>
<translation>Faltung</translation>
</message>
<message>
<source>embedding</source>
<translation>Einbettung</translation>
</message>
<message>
<source>entries</source>
<translation>Einträge</translation>
</message>
<message>
<source>equal</source>
<translation>gleich</translation>
</message>
<message>
<source>head</source>
<translation>Kopf</translation>
</message>
<message>
<source>key</source>
<translation>Key</translation>
</message>
<message>
<source>layer-wise</source>
<translation>schichtweise</translation>
</message>
<message>
<source>layer-wise++</source>
<translation>schichtweise++</translation>
</message>
<message>
<source>least squares</source>
<translation>kleinste Quadrate</translation>
</message>
<message>
<source>low rank</source>
<translation>niedriger Rang</translation>
</message>
<message>
<source>magnitude</source>
<translation>Betrag</translation>
</message>
<message>
<source>majority</source>
<translation>Mehrheit</translation>
</message>
<message>
<source>mean</source>
<translation>Mittel</translation>
</message>
<message>
<source>measured</source>
<translation>gemessen</translation>
</message>
<message>
<source>model</source>
<translation>Modell</translation>
</message>
<message>
<source>norm</source>
<translation>Norm</translation>
</message>
<message>
<source>other</source>
<translation>andere</translation>
</message>
<message>
<source>position embedding</source>
<translation>Positionseinbettung</translation>
</message>
<message>
<source>positive</source>
<translation>positiv</translation>
</message>
<message>
<source>published</source>
<translation>veröffentlicht</translation>
</message>
<message>
<source>query</source>
<translation>Query</translation>
</message>
<message>
<source>query+key+value</source>
<translation>Query+Key+Value</translation>
</message>
<message>
<source>sum</source>
<translation>Summe</translation>
</message>
<message>
<source>task-arithmetic</source>
<translation>Aufgabenarithmetik</translation>
</message>
<message>
<source>task-wise</source>
<translation>aufgabenweise</translation>
</message>
<message>
<source>task-wise++</source>
<translation>aufgabenweise++</translation>
</message>
<message>
<source>tensor</source>
<translation>Tensor</translation>
</message>
<message>
<source>tensors</source>
<translation>Tensoren</translation>
</message>
<message>
<source>value</source>
<translation>Value</translation>
</message>
<message>
<source>vocabulary head</source>
<translation>Vokabularkopf</translation>
</message>
</context>
</TS>
