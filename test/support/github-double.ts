import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { onTestFinished } from 'vitest'
import { portOf } from './port-of.ts'

interface SigningKey {
  readonly identifier: string
  readonly publicPem: string
  readonly privateKey: KeyObject
  isCurrent: boolean
}

export interface SignedReport {
  readonly payload: string
  readonly headers: Record<string, string>
}

/** A real server that publishes public keys as GitHub does, and the reports that GitHub signs with them. */
export class GithubDouble {
  readonly keys: SigningKey[] = []
  /** The `If-None-Match` of each request; null without one. */
  readonly requests: (string | null)[] = []
  answer: (response: ServerResponse, etag: string | null) => void = (response, sent) =>
    this.publish(response, sent)
  readonly #server: Server

  private constructor() {
    this.#server = createServer((request, response) => {
      const etag = request.headers['if-none-match'] ?? null
      this.requests.push(etag)
      // The REST API of GitHub rejects requests that do not name their sender.
      if ((request.headers['user-agent'] ?? '') === '') response.writeHead(403).end()
      else this.answer(response, etag)
    })
  }

  /** It stops when the running test ends. */
  static async start(): Promise<GithubDouble> {
    const github = new GithubDouble()
    github.rotate()
    github.#server.listen(0, '127.0.0.1')
    await once(github.#server, 'listening')
    onTestFinished(async () => {
      github.#server.closeAllConnections()
      github.#server.close()
      await once(github.#server, 'close')
    })
    return github
  }

  get keysUrl(): string {
    return `http://127.0.0.1:${portOf(this.#server)}/meta/public_keys/secret_scanning`
  }

  get list(): string {
    const keys = this.keys.map(({ identifier, publicPem, isCurrent }) => ({
      key_identifier: identifier,
      key: publicPem,
      is_current: isCurrent,
    }))
    return JSON.stringify({ public_keys: keys })
  }

  publish(response: ServerResponse, sent: string | null): void {
    const etag = `"${this.keys.map(key => key.identifier + key.isCurrent).join()}"`
    if (sent === etag) response.writeHead(304, { etag }).end()
    else response.writeHead(200, { etag, 'content-type': 'application/json' }).end(this.list)
  }

  /** A new key signs from now on; the ones before stay in the list. */
  rotate(): void {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
    for (const key of this.keys) key.isCurrent = false
    const publicPem = publicKey.export({ type: 'spki', format: 'pem' }).toString()
    this.keys.push({ identifier: `key-${this.keys.length}`, publicPem, privateKey, isCurrent: true })
  }

  /** @param index of the key that signs; default: the current one */
  sign(payload: string, index = -1): SignedReport {
    const key = this.keys.at(index)
    if (key === undefined) throw new Error('No such key')
    const signature = sign('sha256', Buffer.from(payload), { key: key.privateKey, dsaEncoding: 'der' })
    return {
      payload,
      headers: {
        'content-type': 'application/json',
        'github-public-key-identifier': key.identifier,
        'github-public-key-signature': signature.toString('base64'),
      },
    }
  }
}
