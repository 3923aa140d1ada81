"""The web desk: campaigns, decisions and results in a browser, over the ledger and the functions of the commands.

place        address, and the names by which browsers may ask for it
guard        checks of every request, and headers of every answer
sessions     sessions, and the limit on attempts to sign in
known_people people of the file, or those read last while it has a fault
entering     sign-in, and the person and the form of a request
board        standings of campaigns, read once for all viewers; the one poller of the ledger
rendering    pages from templates
pages        the routes
parts        what pages show, as data
app          the application
connections  connections of browsers, with an end to every wait
serving      its server
"""
