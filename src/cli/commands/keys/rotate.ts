import type { Command } from 'commander'
import { systemClock } from '../../../domain/clock.ts'
import { readResponse, rotatedResponse, type ShownKey } from '../../admin/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../admin/session.ts'
import type { Cli } from '../../cli.ts'
import {
  checkKeyId,
  expiresInOption,
  idempotencyKeyOption,
  overlapOption,
} from '../../options/key-options.ts'
import { expiryInFull, issuedText, keyNameOf } from '../../output/key-text.ts'
import { notAnnouncedText, progressLines } from '../../output/revocation-text.ts'
import { lostKeyRemedy, requireOutput, showSecret } from '../../output/show-secret.ts'
import { plainText } from '../../output/text.ts'
import { explainNoResponse, revokeUnseen } from './issue.ts'

const DAY_SECONDS = 86_400

interface RotateOptions {
  /** Seconds, as `expiresIn`. */
  readonly overlap?: number
  readonly expiresIn?: number
  readonly idempotencyKey?: string
}

/** `postern keys rotate` */
export function addRotate(keys: Command, cli: Cli): void {
  const rotate = keys
    .command('rotate')
    .description('replace a key by one with the same scopes; the old key works until the overlap ends')
    .argument('<id>', 'the key’s id (key_…)')
    .addOption(overlapOption())
    .addOption(expiresInOption())
    .addOption(idempotencyKeyOption())
  addAccessOptions(addJsonOption(rotate)).action(
    async (text: string, options: RotateOptions, self: Command) => {
      const id = checkKeyId(text)
      await rotateKey(openSession(cli, self), id, options)
    },
  )
}

async function rotateKey(session: AdminSession, id: string, options: RotateOptions): Promise<void> {
  requireOutput(session.host)
  const { overlap, expiresIn } = options
  const body = {
    ...(overlap === undefined ? {} : { overlapSeconds: overlap }),
    ...(expiresIn === undefined ? {} : { expiresInDays: expiresIn / DAY_SECONDS }),
  }
  // Without an overlap the old key is revoked: wait until the gateways confirm it.
  const path = `/keys/${id}/rotate?wait=1`
  const response = await session.client
    .send({ method: 'POST', path, body, once: options.idempotencyKey ?? true })
    .catch((error: unknown) => {
      throw explainNoResponse(error, null)
    })
  const { key, secret, replaced, ...progress } = readResponse(session.client, rotatedResponse, response)
  const nowMs = systemClock.wallMs()
  const isRevoked = replaced.revokedAt !== null
  if (session.json && isRevoked && progress.announced === false) {
    session.host.complain(`${notAnnouncedText(progress)}\n`)
  }
  const lines = [
    issuedText(key, nowMs),
    `It replaces ${keyNameOf(replaced)}, which ${endOf(replaced, nowMs)}.`,
    ...(isRevoked ? progressLines(replaced.revokedAt, progress) : []),
  ]
  const undo = () => revokeUnseen(session.client, key.id, lostRotationText(key, replaced, nowMs))
  await showSecret(session, response.text, {
    owner: key.id,
    secret,
    lines,
    remedy: lostKeyRemedy(key.id),
    undo,
  })
}

/** A rotation cannot be taken back: the old key has its end already. */
function lostRotationText(key: ShownKey, replaced: ShownKey, nowMs: number): string {
  const scopes = key.scopes.map(plainText).join(',')
  const issue = `\`postern keys issue --workspace ${plainText(key.workspaceId)} --scope ${scopes}\``
  const [end, when] =
    replaced.revokedAt === null && Date.parse(replaced.expiresAt) > nowMs
      ? [`still ${endOf(replaced, nowMs)}, and cannot be rotated again`, 'before then']
      : [endOf(replaced, nowMs), 'now']
  return `The old key ${plainText(replaced.id)} ${end}. Issue another key ${when}: ${issue}`
}

function endOf(replaced: ShownKey, nowMs: number): string {
  if (replaced.revokedAt !== null) return 'is revoked'
  const ends = Date.parse(replaced.expiresAt) > nowMs ? 'works until' : 'stopped working at'
  return `${ends} ${expiryInFull(replaced, nowMs)}`
}
