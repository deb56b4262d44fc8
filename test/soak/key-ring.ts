import { randomBytes } from 'node:crypto'
import { importSigningSecret, mintSecret } from '../../src/domain/key/secret.ts'
import { ALL_SCOPES, type World } from '../support/world.ts'
import { adminCall } from './admin-call.ts'

export interface HeldKey {
  readonly id: string
  readonly secret: string
  readonly workspaceId: string
}

const WORKSPACES = 8
const LIVE = 40
const REVOKED = 200
/** By then every replica must refuse a revoked key, whatever broke: it was deaf for a second, then used a stale record for one. */
export const STALE_SECONDS = 1
const REFUSED_AFTER_MS = 5_000

/** Keys as people make and revoke them all the time, and what is known for sure of each. */
export class KeyRing {
  readonly #world: World
  readonly #live: HeldKey[] = []
  readonly #revoked: { key: HeldKey; atMs: number }[] = []
  #revocations = 0

  constructor(world: World) {
    this.#world = world
  }

  get revocations(): number {
    return this.#revocations
  }

  /** One key more, and where there are enough of them, one less. What fails leaves a key of which nothing is known. */
  async turnOver(): Promise<void> {
    const workspaceId = `ws_soak_${Math.floor(Math.random() * WORKSPACES)}`
    const key = { name: 'soak', scopes: ALL_SCOPES }
    const issued = await adminCall(this.#world, `/workspaces/${workspaceId}/keys`, key)
    if (issued?.status === 201) {
      const { id } = issued.json['key'] as { id: string }
      this.#live.push({ id, secret: String(issued.json['secret']), workspaceId })
    }
    if (this.#live.length <= LIVE) return
    const [doomed] = this.#live.splice(Math.floor(Math.random() * this.#live.length), 1)
    if (doomed === undefined) return
    const revoked = await adminCall(this.#world, `/keys/${doomed.id}/revoke`)
    if (revoked?.status === 200) this.#noteRevoked(doomed)
  }

  anyLive(): HeldKey | undefined {
    return this.#live[Math.floor(Math.random() * this.#live.length)]
  }

  isLive(key: HeldKey): boolean {
    return this.#live.includes(key)
  }

  /** One that must be refused by now. */
  anyRevoked(): HeldKey | undefined {
    const longAgo = this.#revoked.filter(({ atMs }) => performance.now() - atMs > REFUSED_AFTER_MS)
    return longAgo[Math.floor(Math.random() * longAgo.length)]?.key
  }

  /** Well formed and signed, and never issued. */
  unissued(): string {
    const [secret = ''] = (this.#world.env['POSTERN_KEYS_SIGNING_SECRETS'] ?? '').split(',')
    return mintSecret('wsk_', randomBytes(32), importSigningSecret(Buffer.from(secret, 'base64'))).reveal()
  }

  forged(): string {
    return mintSecret('wsk_', randomBytes(32), importSigningSecret(randomBytes(32))).reveal()
  }

  #noteRevoked(key: HeldKey): void {
    this.#revocations++
    this.#revoked.push({ key, atMs: performance.now() })
    if (this.#revoked.length > REVOKED) this.#revoked.shift()
  }
}
