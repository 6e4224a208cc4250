"""A room full of machines: what each student shares, and what the room looks like together.

card.make()                  # this machine's newest results and verdicts, small and without names
board.read(folder)           # the cards of a folder, and why a file is none
board.page(cards)            # strip plots of the room, and the claims by machine
collector.serve(folder)      # takes cards over the room's network, when the instructor starts it
"""
