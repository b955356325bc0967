"""What clients may take of a server process: bytes, open requests, CPU time, memory.

Bytes of a client are read beside the event loop (`off_loop`), large ones in processes of their own
(`worker_processes`).  What many clients use is divided by ledger and by key (`shares`).
"""
