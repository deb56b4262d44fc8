import { createMessageEncoder, type MessageEncoder } from '../../src/console/announcing/announcer.ts'
import type { Clock } from '../../src/domain/clock.ts'
import {
  type ChangeMessage,
  decodeMessage,
  deriveMessageKey,
  encodeMessage,
  type HeartbeatMessage,
  type ReceivedMessage,
} from '../../src/domain/invalidation-message.ts'
import { DEFAULT_REGION } from '../../src/domain/region.ts'
import { SIGNING_SECRET } from './key-records.ts'

export const MESSAGE_KEY = deriveMessageKey(SIGNING_SECRET)
export const OTHER_MESSAGE_KEY = deriveMessageKey(Buffer.alloc(32, 8))

/** Reads a message without checking its MAC. */
export const readMessage = (text: string): ReceivedMessage | null => decodeMessage(text, null)

type Fields<Message> = Omit<Message, 'kind' | 'region' | 'sender'> & {
  readonly region?: string
  readonly sender?: string
}

/** @param key null for a message without a MAC */
export function changeMessage(fields: Fields<ChangeMessage>, key: typeof MESSAGE_KEY | null = MESSAGE_KEY) {
  return encodeMessage({ kind: 'change', region: DEFAULT_REGION, sender: 'console', ...fields }, key)
}

/** @param key null for a message without a MAC */
export function heartbeatMessage(
  fields: Fields<HeartbeatMessage>,
  key: typeof MESSAGE_KEY | null = MESSAGE_KEY,
) {
  return encodeMessage({ kind: 'heartbeat', region: DEFAULT_REGION, sender: 'console', ...fields }, key)
}

/** Encoder of a test console's messages. */
export function messagesOf(clock: Clock, sender = 'console-1'): MessageEncoder {
  return createMessageEncoder({ sender, region: DEFAULT_REGION, clock, messageKey: () => MESSAGE_KEY })
}
