import { systemClock } from '../domain/clock.ts'
import { readAnswer, rotatedAnswer, type ShownKey } from './admin-answers.ts'
import type { KeysCommand } from './admin-client.ts'
import { expiryText, gatewaysText, nameOf, scopesText, UNANNOUNCED } from './key-text.ts'
import { explainNoAnswer } from './keys-issue.ts'
import { showSecret } from './show-secret.ts'

const DAY_SECONDS = 86_400

export interface RotateOptions {
  readonly id: string
  /** Seconds, as `expiresIn`. */
  readonly overlap?: number
  readonly expiresIn?: number
}

/** `postern keys rotate` */
export async function rotateKey(command: KeysCommand, options: RotateOptions): Promise<void> {
  const { id, overlap, expiresIn } = options
  const body = {
    ...(overlap === undefined ? {} : { overlapSeconds: overlap }),
    ...(expiresIn === undefined ? {} : { expiresInDays: expiresIn / DAY_SECONDS }),
  }
  // Without an overlap the old key is revoked: wait until the gateways confirm it.
  const path = `/keys/${id}/rotate?wait=1`
  const answer = await command.client
    .ask({ method: 'POST', path, body, once: true })
    .catch((error: unknown) => {
      throw explainNoAnswer(error, null)
    })
  const { key, secret, replaced, announced, gateways } = readAnswer(command.client, rotatedAnswer, answer)
  const nowMs = systemClock.wallMs()
  if (announced === false && replaced.revokedAt !== null) command.host.complain(`${UNANNOUNCED}.\n`)
  showSecret(command, answer.text, key, secret, [
    `Issued ${nameOf(key)} for workspace ${key.workspaceId}: ${scopesText(key)}; expires ${expiryText(key, nowMs)}.`,
    `It replaces ${nameOf(replaced)}, which ${endOf(replaced, nowMs)}.`,
    ...(gateways ? [gatewaysText(gateways)] : []),
  ])
}

function endOf(replaced: ShownKey, nowMs: number): string {
  if (replaced.revokedAt !== null) return 'is revoked'
  const ends = Date.parse(replaced.expiresAt) > nowMs ? 'works until' : 'stopped working at'
  return `${ends} ${expiryText(replaced, nowMs)}`
}
