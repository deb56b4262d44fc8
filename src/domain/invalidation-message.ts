import { createHmac, createSecretKey, hkdfSync, type KeyObject, timingSafeEqual } from 'node:crypto'
import { parseJsonObject } from './form/json.ts'
import { DEFAULT_REGION, isRegionName } from './region.ts'
import { isCount, isDigest, isVersion } from './wire.ts'

/** Longer messages were not published by a console or key service. */
const MAX_MESSAGE_LENGTH = 1024
const SENDER = /^[A-Za-z0-9._-]{1,64}$/
/** A MAC of 32 bytes in base64url. */
const MAC = /^[A-Za-z0-9_-]{43}$/

/** A record was changed, and the change is committed. */
export interface ChangeMessage {
  readonly kind: 'change'
  /** To which it is announced; gateways of another region ignore it. */
  readonly region: string
  /** The process that published it; a key service without signing secrets may leave it empty. */
  readonly sender: string
  readonly digest: string
  readonly version: number
  /** When the change was committed: since the epoch, by the sender's clock. */
  readonly atMs: number
}

/** Every committed change has been published. */
export interface HeartbeatMessage {
  readonly kind: 'heartbeat'
  /** As in a change: it says nothing about what was announced to another region. */
  readonly region: string
  /** The process that published it. After a restart it uses another name, because its monotonic clock starts again. */
  readonly sender: string
  /** The sender's monotonic clock, in whole milliseconds; null for a key service that has only a wall clock. */
  readonly monotonicMs: number | null
  /** When it was sent: since the epoch, by the sender's clock. */
  readonly atMs: number
}

export type InvalidationMessage = ChangeMessage | HeartbeatMessage

/**
 * @property verified whether it is for the region of the reader, and its MAC was made with an active signing secret, or no
 * secret is set
 */
export type ReceivedMessage = InvalidationMessage & { readonly verified: boolean }

/** A derived key (RFC 5869): the MAC of a record or an API key is never valid for a message. */
export function deriveMessageKey(signingSecret: Uint8Array): KeyObject {
  return createSecretKey(new Uint8Array(hkdfSync('sha256', signingSecret, '', 'postern message mac v1', 32)))
}

/** @param messageKey the key that signs, or null where no signing secret is set */
export function encodeMessage(message: InvalidationMessage, messageKey: KeyObject | null): string {
  const mac = messageKey === null ? {} : { mac: computeMac(message, messageKey) }
  const region = message.region === DEFAULT_REGION ? {} : { region: message.region }
  if (message.kind === 'change') {
    const { digest, version, atMs, sender } = message
    return JSON.stringify({ digest, version, at: atMs, sender, ...region, ...mac })
  }
  const { sender, monotonicMs, atMs } = message
  const monotonic = monotonicMs === null ? {} : { monotonic: monotonicMs }
  return JSON.stringify({ beat: sender, ...monotonic, at: atMs, ...region, ...mac })
}

/**
 * @param messageKeys one of them must have made the MAC; null if no signing secret is set
 * @param region of the reader: a message for another one is not verified
 * @returns null if the text is no valid message
 */
export function decodeMessage(
  text: string,
  messageKeys: readonly KeyObject[] | null,
  region: string = DEFAULT_REGION,
): ReceivedMessage | null {
  const json = parseJsonObject(text, MAX_MESSAGE_LENGTH)
  const message = json === null ? null : readMessage(json)
  if (json === null || message === null) return null
  const isSigned = messageKeys === null || hasMac(message, json['mac'], messageKeys)
  return { ...message, verified: isSigned && message.region === region }
}

function readMessage(json: Record<string, unknown>): InvalidationMessage | null {
  const { beat, digest, version, monotonic = null, sender = '', region = DEFAULT_REGION, at } = json
  if (!isCount(at) || !isRegionName(region)) return null
  if (beat !== undefined) {
    // A message with the fields of both kinds is invalid: a change must not count as a heartbeat.
    if (digest !== undefined || !isSender(beat)) return null
    if (monotonic !== null && !isCount(monotonic)) return null
    return { kind: 'heartbeat', region, sender: beat, monotonicMs: monotonic, atMs: at }
  }
  if (typeof digest !== 'string' || !isDigest(digest) || !isVersion(version)) return null
  if (sender !== '' && !isSender(sender)) return null
  return { kind: 'change', region, sender, digest, version, atMs: at }
}

function isSender(value: unknown): value is string {
  return typeof value === 'string' && SENDER.test(value)
}

function hasMac(message: InvalidationMessage, mac: unknown, messageKeys: readonly KeyObject[]): boolean {
  if (typeof mac !== 'string' || !MAC.test(mac)) return false
  const given = Buffer.from(mac)
  return messageKeys.some(key => timingSafeEqual(given, Buffer.from(computeMac(message, key))))
}

/** Signs a list that begins with the kind, so that no two messages have the same signed bytes. */
function computeMac(message: InvalidationMessage, messageKey: KeyObject): string {
  const { kind, region, sender, atMs } = message
  const signed =
    message.kind === 'change'
      ? [kind, region, sender, message.digest, message.version, atMs]
      : [kind, region, sender, message.monotonicMs, atMs]
  return createHmac('sha256', messageKey).update(JSON.stringify(signed)).digest('base64url')
}
