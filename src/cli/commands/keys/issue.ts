import { type Command, InvalidArgumentError, Option } from 'commander'
import { Type } from 'typebox'
import { systemClock } from '../../../domain/clock.ts'
import { MAX_OVERLAP_SECONDS } from '../../../domain/key/key-life.ts'
import { type Cli, minuteText, plainText } from '../../cli.ts'
import {
  type AdminClient,
  nullable,
  readResponse,
  type ShownKey,
  shownKey,
  shownProgress,
} from '../../client/client.ts'
import { adviseIfMade } from '../../client/failures.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../client/session.ts'
import { addFieldOptions, type FieldOptions, givenFields } from '../../options/key-fields.ts'
import {
  checkKeyId,
  checkWorkspace,
  DAY_SECONDS,
  durationWithin,
  expiresInOption,
  idempotencyKeyOption,
} from '../../options/values.ts'
import {
  expiryInFull,
  issuedText,
  keyName,
  progressLines,
  warnUnlessAnnounced,
} from '../../output/key-text.ts'
import { requireOutput, showSecret, undoIssue } from '../../output/show-secret.ts'

/** The secret is null in the response to a retry: the first response held it. */
const issuedResponse = Type.Object({ key: shownKey, secret: nullable(Type.String()) })
const rotatedResponse = Type.Object({
  ...issuedResponse.properties,
  replaced: shownKey,
  ...shownProgress.properties,
})

interface IssueOptions extends FieldOptions {
  readonly workspace: string
  readonly scope: readonly string[]
  /** Seconds. */
  readonly expiresIn?: number
  readonly idempotencyKey?: string
}

/** `postern keys issue` */
export function addIssue(keys: Command, cli: Cli): void {
  const issue = keys
    .command('issue')
    .description('issue a new key; its secret is printed once, alone on standard output')
    .requiredOption('--workspace <id>', 'workspace of the key')
    .addOption(scopeOption().makeOptionMandatory())
  addFieldOptions(issue, 'name of the key (default: "cli" and the time)')
    .addOption(expiresInOption())
    .addOption(idempotencyKeyOption())
  addAccessOptions(addJsonOption(issue)).action(async (options: IssueOptions, self: Command) => {
    const workspace = checkWorkspace(options.workspace)
    await issueKey(openSession(cli, self), { ...options, workspace })
  })
}

/** `--scope a,b --scope c` */
function scopeOption(): Option {
  return new Option('--scope <scopes>', 'scopes of the key, separated by commas; may be repeated').argParser(
    (text: string, before: readonly string[] = []) => [...new Set([...before, ...splitScopes(text)])],
  )
}

function splitScopes(text: string): string[] {
  const scopes = text.split(',').map(scope => scope.trim())
  if (scopes.includes('')) throw new InvalidArgumentError('It must be scopes separated by commas.')
  return scopes
}

async function issueKey(session: AdminSession, options: IssueOptions): Promise<void> {
  requireOutput(session.host)
  const nowMs = systemClock.wallMs()
  const { workspace, scope, name = `cli ${minuteText(new Date(nowMs).toISOString())}` } = options
  const { expiresIn } = options
  const lifetime = expiresIn === undefined ? {} : { expiresInDays: expiresIn / DAY_SECONDS }
  const path = `/workspaces/${encodeURIComponent(workspace)}/keys`
  const body = { ...givenFields({ ...options, name }), scopes: scope, ...lifetime }
  const response = await session.client
    .send({
      method: 'POST',
      path,
      body,
      once: options.idempotencyKey ?? true,
      repeatedWith: options.name === undefined ? ` --name "${name}"` : '',
    })
    .catch((error: unknown) => {
      throw explainNoResponse(error, `check with \`postern keys list --workspace ${workspace}\``)
    })
  const { key, secret } = readResponse(session.client, issuedResponse, response)
  const { id } = key
  const undo = () => revokeUnseen(session.client, id, 'Issue another one once it can be written.')
  await showSecret(session, response.text, {
    owner: id,
    secret,
    lines: [issuedText(key, nowMs)],
    remedy: lostKeyRemedy(id),
    undo,
  })
}

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

function overlapOption(): Option {
  const flag = '--overlap'
  const description = 'how long the old key keeps working (default: 24h); 0 revokes it at once'
  return new Option(`${flag} <duration>`, description).argParser(durationWithin(flag, 0, MAX_OVERLAP_SECONDS))
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
      throw explainNoResponse(error, `\`postern keys show ${id}\` names it as “Replaced by”`)
    })
  const { key, secret, replaced, ...progress } = readResponse(session.client, rotatedResponse, response)
  const nowMs = systemClock.wallMs()
  const isRevoked = replaced.revokedAt !== null
  if (session.json && isRevoked) warnUnlessAnnounced(session.host, progress)
  const lines = [
    issuedText(key, nowMs),
    `It replaces ${keyName(replaced)}, which ${describeEnd(replaced, nowMs)}.`,
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
      ? [`still ${describeEnd(replaced, nowMs)}, and cannot be rotated again`, 'before then']
      : [describeEnd(replaced, nowMs), 'now']
  return `The old key ${plainText(replaced.id)} ${end}. Issue another key ${when}: ${issue}`
}

function describeEnd(replaced: ShownKey, nowMs: number): string {
  if (replaced.revokedAt !== null) return 'is revoked'
  const ends = Date.parse(replaced.expiresAt) > nowMs ? 'works until' : 'stopped working at'
  return `${ends} ${expiryInFull(replaced, nowMs)}`
}

/** Revokes a key whose secret could not be shown. @returns what was done, and the advice */
function revokeUnseen(client: AdminClient, id: string, advice: string): Promise<string> {
  const revoke = () => client.send({ method: 'POST', path: `/keys/${id}/revoke` })
  return undoIssue(revoke, `${id} was revoked again. ${advice}`, `run \`postern keys revoke ${id}\``)
}

/** @returns the error, with advice if the key may have been issued all the same. @param search how to find it */
function explainNoResponse(error: unknown, search: string): unknown {
  return adviseIfMade(
    error,
    id => `Look at it with \`postern keys show ${id}\`, and revoke it with \`postern keys revoke ${id}\``,
    `A key may have been issued: ${search}. If so, revoke it, since its secret is lost`,
  )
}

function lostKeyRemedy(id: string): string {
  return `Replace it with \`postern keys rotate ${id} --overlap 0s\`, or revoke the key`
}
