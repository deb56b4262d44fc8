import { systemClock } from '../domain/clock.ts'
import { readAnswer, rotatedAnswer } from './admin-answers.ts'
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
  const path = `/keys/${id}/rotate`
  const answer = await command.client
    .ask({ method: 'POST', path, body, once: true })
    .catch((error: unknown) => {
      throw explainSilence(error, null)
    })
  const { key, secret, replaced } = readAnswer(command.client, rotatedAnswer, answer)
  const nowMs = systemClock.wallMs()
  const ends = Date.parse(replaced.expiresAt) > nowMs ? 'works until' : 'stopped working at'
  showSecret(command, answer.text, key, secret, [
    `Issued ${nameOf(key)} for workspace ${key.workspaceId}: ${scopesText(key)}; expires ${expiryText(key, nowMs)}.`,
    `It replaces ${nameOf(replaced)}, which ${ends} ${expiryText(replaced, nowMs)}.`,
  ])
}
