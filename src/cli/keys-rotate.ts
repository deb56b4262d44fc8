import { systemClock } from '../domain/clock.ts'
import { readAnswer, rotatedAnswer, type ShownKey } from './admin-answers.ts'
import { gatewaysText, UNANNOUNCED } from './gateways-text.ts'
import { expiryText, nameOf, scopesText } from './key-text.ts'
import type { KeysCommand } from './keys-command.ts'
import { explainSilence } from './keys-issue.ts'
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
  // To wait means something where there is no overlap: the old key is revoked then.
  const path = `/keys/${id}/rotate?wait=1`
  const answer = await command.client
    .ask({ method: 'POST', path, body, once: true })
    .catch((error: unknown) => {
      throw explainSilence(error, null)
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
