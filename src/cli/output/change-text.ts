import type { Static } from 'typebox'
import type { AdminResponse } from '../admin/client.ts'
import { changedResponse, readResponse, type ShownKey } from '../admin/responses.ts'
import type { AdminSession } from '../admin/session.ts'
import { keyNameOf } from './key-text.ts'
import { notAnnouncedText, progressLines } from './revocation-text.ts'
import { plainText } from './text.ts'

/**
 * Prints what happened to a key and how far it has come, like a revocation.
 * @param toText what happened, in one sentence
 */
export function printChange(
  { client, host, json }: AdminSession,
  response: AdminResponse,
  toText: (key: ShownKey, which: string) => string,
): void {
  const {
    key,
    committedAt = null,
    ...progress
  }: Static<typeof changedResponse> = readResponse(client, changedResponse, response)
  if (json) {
    host.write(`${response.text}\n`)
    if (progress.announced === false) host.complain(`${notAnnouncedText(progress)}\n`)
    return
  }
  const which = `${keyNameOf(key)} of workspace ${plainText(key.workspaceId)}`
  host.write(`${[toText(key, which), ...progressLines(committedAt, progress)].join('\n')}\n`)
}
