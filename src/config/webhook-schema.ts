import { Type } from 'typebox'
import { file, httpUrl, milliseconds, optional, secret, section } from './schema-parts.ts'

/** `console.webhook` */
export const webhook = section({
  url: optional(
    httpUrl('Address that is told when a key is issued, rotated, revoked, about to expire or expired'),
  ),
  secret: optional(
    Type.String({
      format: 'webhook-secret',
      description: 'What those messages are signed with: base64 of 24 to 64 bytes, with or without `whsec_`',
      ...secret,
    }),
  ),
  timeoutMs: milliseconds('Time for it to take a message', 100),
  caFile: optional(file('Certificate authority of that address (PEM)')),
})
