"""Opens a frame of AES-128-GCM or ChaCha20-Poly1305: suite, key, nonce, header, body and tag in hexadecimal."""
import sys
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

suite, *rest = sys.argv[1:]
key, nonce, header, body, tag = map(bytes.fromhex, rest)
cipher = {"Aes128Gcm": lambda: AESGCM(key[:16]), "ChaCha20Poly1305": lambda: ChaCha20Poly1305(key)}[suite]()
print(cipher.decrypt(bytes(4) + nonce, body + tag, header).hex())
