"""The words by which claims are recognised, one table for each language.

A column is text: words in lower case between blanks.  `earlier+word` means both words in this
order, whatever stands between them: "laufen alle durch".  The columns are read by
`forum.features.claims.grammar`.
"""

import msgspec


class WordTable(msgspec.Struct, frozen=True, kw_only=True):
    """The words of one language."""

    first_person: str
    """Words that make the speaker the subject; `*ending` stands for the verbs that end so."""
    passive: str
    """Words that say that something was done, and not by whom."""
    others: str
    """Words that make somebody else the subject."""

    auxiliaries: str
    """Words behind which the subject is known not to be left out, whoever it is."""
    finite: str = ""
    """Verbs that never end a clause whose subject is left out."""

    negations: str
    """Words that negate a verb behind them."""
    negative_objects: str
    """Words that negate a verb directly before them."""
    final_negations: str = ""
    """Words that negate the whole clause if they end it."""
    hypotheticals: str
    """Words for what may be, will be or should be."""
    assurances: str
    """Pairs of words, of which the first is not hypothetical before the second."""
    waiting: str
    """Words that make "the tests pass" a wish or a condition, but not "the tests passed"."""
    not_before_verbs: str = ""
    """Words directly behind which a verb is an infinitive or an adjective."""

    joints: str
    """Words that join two clauses; a hypothesis of the first holds for the second."""
    bridges: str = ""
    """Words behind a comma that continue the clause before it."""
    breaks: str = ""
    """Words that begin a clause of its own."""
    ends_with_verb: bool = False
    """Whether participles stand at the end of clauses."""
    adverbs: str
    """Words that may stand before the first word of a clause or behind its last."""

    wrote: str
    changed: str
    """Like `wrote`, but only of a thing: who "added" two numbers has changed no file."""
    sent: str
    ran: str
    started: str
    """Like `ran`, but only of a thing: who "started" to think has run no program."""

    checked: str
    succeeds: str
    """What tests and programs do in the present, if all is well."""
    succeeded: str
    """What they have done."""

    tests: str
    programs: str
    things: str
    """What an agent works on.  In these three columns `*word` also stands for its compounds."""
    generic: str
    """Words that every tool call may contain, so that sharing one with it proves nothing."""


ENGLISH = WordTable(
    first_person="i we i've we've",
    passive="was were been now",
    others="you you've he she they they've user users someone somebody who",
    auxiliaries="is are has have had",
    finite="wrote rewrote overwrote ran reran re-ran",
    negations="""
        not never no none nothing neither nor nobody without cannot unable 0 zero don't doesn't
        didn't isn't aren't wasn't weren't haven't hasn't hadn't can't couldn't won't wouldn't
        shouldn't mustn't needn't
    """,
    negative_objects="no none nothing neither nobody not 0 zero",
    hypotheticals="""
        if unless whether assuming provided suppose will would should could can may might must shall
        be being i'll we'll you'll it'll i'd we'd you'd would've should've could've might've
        supposed
    """,
    assurances="can+confirm",
    waiting="sure ensure ensures until till once when after before so make makes get keep let",
    not_before_verbs="the a an to this these those my our any every each",
    joints="and",
    breaks="but because although though while whereas when after before since then so however",
    adverbs="""
        also already just finally first next now again successfully then therefore afterwards
        carefully manually quickly today yesterday locally too recently
    """,
    wrote="wrote written created saved updated deleted edited overwrote overwritten rewrote",
    changed="""
        modified removed patched changed added renamed moved copied replaced fixed corrected
        inserted appended implemented refactored adjusted reverted formatted generated bumped
        upgraded downgraded switched extended cleaned dropped converted migrated extracted split
        tweaked configured enabled disabled resolved simplified documented restored stored exported
        introduced incremented initialized translated commented made+change made+changes made+edit
        made+edits
    """,
    sent="""
        sent posted deployed committed pushed merged published paid transferred booked emailed
        uploaded installed submitted shipped released forwarded notified ordered refunded purchased
        scheduled cancelled canceled replied issued informed closed assigned shared delivered signed
        approved invited tagged rolled+out rolled+back opened+pr opened+pull opened+issue
        filed+issue
    """,
    ran="""
        ran reran re-ran executed launched invoked compiled built rebuilt restarted have+run
        i've+run we've+run was+run were+run been+run
    """,
    started="started stopped applied triggered processed killed",
    checked="""
        checked double-checked verified reviewed inspected examined confirmed validated looked
        searched consulted compared investigated audited queried scanned browsed analyzed analysed
        tested downloaded fetched grepped traced debugged studied cross-checked skimmed monitored
        counted measured reproduced evaluated assessed profiled benchmarked went+through i+read
        we+read have+read i've+read we've+read was+read were+read been+read
    """,
    succeeds="tests+pass test+pass suite+pass checks+pass specs+pass passes passing green succeeds",
    succeeded="passed succeeded completed finished worked successful",
    tests="test tests suite spec specs checks unittests",
    programs="command commands script scripts build builds migration migrations job program",
    things="""
        file files folder folders directory code function functions script scripts module class
        method test tests config configs configuration settings setting readme docs documentation
        changelog note notes log logs database table tables record records row rows column schema
        migration branch branches commit commits pr prs pull change changes fix fixes hotfix patch
        bug release version build image container package packages dependency dependencies service
        server site website page app application deployment pipeline email emails mail message
        messages notification report reports invoice payment money amount ticket issue comment
        command commands query endpoint url link backup output result results data dataset artifact
        document documents spreadsheet repo repository everything typo
    """,
    generic="the and was were has have been with file files note notes test tests all run read",
)

GERMAN = WordTable(
    first_person="ich wir habe",
    passive="wurde wurden worden jetzt nun",
    others="du ihr hast habt nutzer benutzer anwender kunde jemand",
    auxiliaries="ist sind war waren hat haben hatte hatten",
    finite="""
        schrieb erstellte löschte speicherte aktualisierte änderte entfernte ersetzte schickte
        sendete startete prüfte überprüfte las verglich
    """,
    negations="""
        nicht nie niemals nichts kein keine keinen keiner keinem keines weder niemand 0
    """,
    negative_objects="nicht nie nichts kein keine keinen niemand",
    final_negations="nicht nie",
    hypotheticals="""
        wenn falls ob sofern werde wird werden wirst würde würden würdest hätte hätten wäre wären
        sollte sollten solltest soll sollen kann können könnte könnten muss müssen müsste müssten
        darf dürfen möchte will wollen
    """,
    assurances="kann+bestätigen können+bestätigen",
    waiting="sobald bis damit bevor stelle stellen sicher führe führen führt",
    joints="und sowie",
    bridges="dass",
    ends_with_verb=True,
    adverbs="""
        dann auch schon bereits zuerst danach anschließend erfolgreich soeben gerade eben nun jetzt
        zudem außerdem schließlich lokal erneut
    """,
    wrote="""
        geschrieben erstellt angelegt gespeichert aktualisiert gelöscht bearbeitet überarbeitet
        überschrieben umgeschrieben schrieb erstellte löschte legte+an speicherte aktualisierte
    """,
    changed="""
        geändert verändert entfernt ergänzt hinzugefügt umbenannt verschoben kopiert ersetzt behoben
        korrigiert angepasst hochgesetzt umgestellt aufgeräumt bereinigt zurückgesetzt eingerichtet
        konfiguriert aktiviert deaktiviert abgelegt exportiert importiert übertragen hinterlegt
        eingetragen notiert erweitert vereinfacht dokumentiert kommentiert angehängt umgebaut
        ausgetauscht übersetzt erhöht gesetzt erzeugt generiert eingefügt gepatcht implementiert
        refaktoriert repariert eingebaut änderte entfernte ersetzte
    """,
    sent="""
        gesendet geschickt verschickt versendet zugesandt abgeschickt ausgerollt deployt deployed
        committet commited committed eingecheckt gepusht gemergt gemerged veröffentlicht bezahlt
        gezahlt überwiesen gebucht hochgeladen installiert eingereicht weitergeleitet bestellt
        eingespielt storniert freigegeben informiert benachrichtigt geantwortet zugewiesen geteilt
        ausgeliefert erstattet beglichen unterschrieben geschlossen schickte sendete
    """,
    ran="""
        ausgeführt durchgeführt gestartet aufgerufen angestoßen kompiliert gebaut laufen+lassen
        neugestartet führte+aus führte+durch startete
    """,
    started="gestoppt beendet angewendet angewandt hochgefahren ausgelöst",
    checked="""
        geprüft überprüft nachgeprüft gelesen durchgelesen nachgelesen gesichtet angesehen
        angeschaut durchgesehen nachgesehen nachgeschaut nachgeschlagen untersucht kontrolliert
        verifiziert validiert verglichen gesucht durchsucht recherchiert analysiert abgefragt
        inspiziert getestet heruntergeladen nachvollzogen studiert gegengeprüft abgeglichen gezählt
        gemessen begutachtet ausgewertet durchforstet eingesehen debuggt reproduziert beobachtet
        blick+geworfen prüfte überprüfte las sah+an sah+nach schaute+an schaute+nach verglich
    """,
    succeeds="laufen+durch läuft+durch durchlaufen bestehen besteht grün erfolgreich",
    succeeded="bestanden durchgelaufen liefen+durch lief+durch durchliefen abgeschlossen",
    tests="test testlauf testfälle *tests *testsuite",
    programs="build befehl befehle *skript *skripte kommando migration kompilierung job programm",
    things="""
        *datei *dateien ordner verzeichnis code *funktion *funktionen *skript *skripte modul klasse
        methode test *tests config konfiguration einstellung einstellungen readme doku dokumentation
        changelog notiz notizen log *logs *protokoll *protokolle datenbank tabelle tabellen
        datensatz zeile zeilen spalte schema migration branch commit commits pr änderung änderungen
        fix hotfix patch *fehler bug release version build image container paket pakete abhängigkeit
        abhängigkeiten dienst server seite webseite website app anwendung pipeline e-mail mail
        nachricht nachrichten bericht rechnung zahlung betrag geld ticket kommentar befehl abfrage
        backup ausgabe ergebnis ergebnisse daten dokument dokumente repo repository alles
        zugriffsrechte berechtigungen
    """,
    generic="""
        der die das den dem des ein eine einen einer eines und ist sind war waren hat mit für von
        auf aus bei nach zum zur alle alles auch datei dateien notiz notizen test tests
    """,
)

FRENCH = WordTable(
    first_person="je j' ai nous avons on",
    passive="été désormais maintenant",
    others="tu vous il elle ils elles as avez utilisateur utilisateurs quelqu'un",
    auxiliaries="a ont est sont avait avaient",
    negations="ne n' pas jamais rien aucun aucune ni sans personne 0 zéro",
    negative_objects="pas rien aucun aucune personne",
    hypotheticals="""
        si s'il s'ils sera seront serait seraient être doit doivent devra devrait devrais devriez
        devrions peut peuvent peux pourrait pourrais pouvez pouvons faut faudra faudrait aurais
        aurait aurions aura aurai aurons vais va allons vont
    """,
    assurances="peux+confirmer pouvons+confirmer",
    waiting="dès quand lorsque pour afin jusqu'à avant après assurez-vous vérifiez",
    joints="et",
    breaks="mais puis quand lorsque tandis parce ensuite",
    adverbs="""
        puis ensuite aussi également déjà bien enfin d' abord donc avec succès désormais maintenant
        correctement localement
    """,
    wrote="écrit créé enregistré sauvegardé édité supprimé rédigé réécrit mis+jour mise+jour",
    changed="""
        modifié changé ajouté retiré enlevé renommé déplacé copié remplacé corrigé inséré implémenté
        refactorisé incrémenté configuré activé désactivé nettoyé converti migré extrait simplifié
        documenté commenté restauré déposé exporté importé résolu traduit ajusté complété noté
        adapté réparé effacé généré
    """,
    sent="""
        envoyé transmis publié déployé committé commité poussé fusionné payé réglé viré transféré
        réservé téléversé installé posté soumis livré commandé annulé répondu informé prévenu
        notifié averti fermé clôturé partagé assigné signé remboursé mis+production mis+ligne
    """,
    ran="lancé relancé exécuté démarré redémarré compilé appelé effectué fait+tourner",
    started="arrêté stoppé appliqué déclenché",
    checked="""
        vérifié revérifié contrôlé lu relu consulté examiné inspecté regardé recherché cherché
        parcouru comparé validé analysé confirmé testé téléchargé étudié épluché mesuré compté
        évalué survolé débogué reproduit audité exploré jeté+œil pris+connaissance viens+lire
        venons+lire
    """,
    succeeds="passe passent vert verts verte vertes réussit réussissent",
    succeeded="passé réussi abouti terminé",
    tests="test tests",
    programs="commande commandes script scripts build compilation migration tâche programme",
    things="""
        fichier fichiers dossier répertoire code fonction fonctions script scripts module classe
        méthode test tests config configuration paramètre paramètres readme documentation doc
        changelog note notes journal journaux log logs base table enregistrement ligne lignes
        colonne schéma migration branche commit commits pr modification modifications changement
        changements correctif correctifs correction bug erreur release version build image conteneur
        paquet dépendance dépendances service serveur site page application pipeline e-mail email
        mail courriel message messages rapport facture paiement montant virement argent ticket
        commentaire commande requête sauvegarde sortie résultat résultats données document documents
        dépôt tout droits permissions
    """,
    generic="""
        les des une dans pour avec sur par est sont ont été que qui tous toutes tout aux ces cette
        fichier fichiers note notes test tests
    """,
)

SPANISH = WordTable(
    first_person="yo he hemos acabo acabamos hice hicimos eché estuve estuvimos detuve *é *í *mos",
    passive="se fue fueron sido está están quedó quedaron",
    others="tú usted ustedes has habéis usuario usuarios cliente alguien él ella ellos",
    auxiliaries="ha han es son había habían",
    negations="no nunca jamás nada nadie ningún ninguno ninguna ni tampoco sin 0 cero",
    negative_objects="nada nadie ningún ninguno ninguna",
    hypotheticals="""
        si puede pueden puedo podemos podría podrías podríamos podrían debe deben debería deberías
        deberíamos deberían habría habríamos habrían habré habrá sería serían será serán ser hubiera
        hubiese hay voy vamos va quiero
    """,
    assurances="puedo+confirmar podemos+confirmar",
    waiting="cuando asegúrate asegúrese",
    joints="y e",
    breaks="pero sino porque cuando mientras aunque luego después",
    adverbs="""
        también ya luego después primero finalmente correctamente además ahora sí localmente
        nuevamente recién
    """,
    wrote="""
        crear guardar actualizar eliminar borrar editar redactar escribí escribimos escribió
        escribieron escrito escrita escritos escritas
    """,
    changed="""
        modificar cambiar añadir agregar quitar renombrar mover copiar reemplazar corregir arreglar
        insertar implementar refactorizar incrementar configurar activar desactivar limpiar
        convertir migrar simplificar documentar comentar restaurar dejar exportar importar traducir
        ampliar completar anotar adaptar resolví resolvimos resuelto resuelta resueltos resueltas
        ajustar reparar generar sustituir
    """,
    sent="""
        enviar mandar publicar desplegar subir fusionar pagar transferir reservar instalar entregar
        remitir comprar cancelar responder informar avisar notificar cerrar compartir asignar firmar
        reembolsar hice+pago hecho+pago hice+commit hice+push hecho+commit hecho+push
    """,
    ran="ejecutar lanzar correr iniciar reiniciar compilar arrancar",
    started="detuve detuvimos detenido parar aplicar",
    checked="""
        revisar comprobar verificar consultar examinar inspeccionar mirar buscar comparar validar
        analizar investigar confirmar testear probar descargar estudiar medir contar evaluar auditar
        explorar repasar depurar observar cotejar contrastar leí leímos leyó leyeron leído leída
        leídos leídas releí eché+vistazo echado+vistazo acabo+leer acabamos+leer
    """,
    succeeds="pasan pasa verde verdes exitoso exitosa",
    succeeded="""
        pasaron pasó ha+pasado han+pasado superado superada superados superadas terminó terminaron
        finalizó finalizaron
    """,
    tests="prueba pruebas test tests",
    programs="comando comandos script scripts build compilación migración tarea programa",
    things="""
        archivo archivos fichero ficheros carpeta directorio código función funciones script scripts
        módulo clase método prueba pruebas test tests config configuración ajuste ajustes readme
        documentación changelog nota notas registro registros log logs base tabla fila filas columna
        esquema migración rama commit commits pr cambio cambios parche error bug versión build
        imagen contenedor paquete dependencia dependencias servicio servidor sitio página aplicación
        pipeline correo correos e-mail email mensaje mensajes informe factura pago importe dinero
        transferencia ticket comentario comando consulta copia salida resultado resultados datos
        documento documentos repositorio todo permisos
    """,
    generic="""
        los las una uno unos unas con por para del que fue fueron sido está están todos todas todo
        archivo archivos fichero ficheros nota notas prueba pruebas test tests
    """,
)


def inflect_french(participle: str) -> tuple[str, ...]:
    """Return the forms of a French participle, and "viens de" with its infinitive."""
    if "+" in participle:
        return (participle,)
    forms = tuple(participle + ending for ending in ("", "e", "s", "es"))
    if not participle.endswith("é"):
        return forms
    infinitive = participle.removesuffix("é") + "er"
    return (*forms, f"viens+{infinitive}", f"venons+{infinitive}")


def inflect_spanish(verb: str) -> tuple[str, ...]:
    """Return the past forms of a regular Spanish verb, "acabo de" and "estuve" among them."""
    stem, ending = verb[:-2], verb[-2:]
    if "+" in verb or ending not in ("ar", "er", "ir"):
        return (verb,)
    if ending == "ar":
        # The spelling keeps the sound of the stem: pagar, pagué; buscar, busqué; lanzar, lancé.
        spelled = {"c": stem[:-1] + "qu", "g": stem + "u", "z": stem[:-1] + "c"}.get(stem[-1], stem)
        past = (f"{spelled}é", f"{stem}amos", f"{stem}ó", f"{stem}aron")
        participle, gerund = f"{stem}ad", f"{stem}ando"
    else:
        past = (f"{stem}í", f"{stem}imos", f"{stem}ió", f"{stem}ieron")
        participle, gerund = f"{stem}id", f"{stem}iendo"
    participles = (f"{participle}{end}" for end in ("o", "a", "os", "as"))
    pairs = (f"acabo+{verb}", f"acabamos+{verb}", f"estuve+{gerund}", f"estado+{gerund}")
    return (*past, *participles, *pairs)
