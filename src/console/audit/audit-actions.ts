/** Actions on keys, each with its label on pages. */
const KEY_ACTIONS = {
  'key.issued': 'Issued',
  'key.rotated': 'Rotated',
  'key.revoked': 'Revoked',
  'key.suspended': 'Suspended',
  'key.resumed': 'Resumed',
  'key.edited': 'Edited',
  'key.imported': 'Imported',
  /** Reported as leaked, and not revoked by the report. */
  'key.reported': 'Reported as leaked',
} as const

/** Actions that concern no key. */
const ACCESS_ACTIONS = {
  'token.issued': 'Token issued',
  'token.revoked': 'Token revoked',
  'person.signed_in': 'Signed in',
  'person.signed_out': 'Signed out',
  /** An attempt to reach a workspace that the caller may not access. */
  'access.refused': 'Access refused',
  /** A backup was put in place of the database. */
  'database.restored': 'Database restored',
} as const

/** Actions on the webhook of a workspace. */
const WEBHOOK_ACTIONS = {
  'webhook.set': 'Webhook set',
  'webhook.removed': 'Webhook removed',
} as const

const LABELS = { ...KEY_ACTIONS, ...ACCESS_ACTIONS, ...WEBHOOK_ACTIONS }

export type KeyAction = keyof typeof KEY_ACTIONS
export type AccessAction = keyof typeof ACCESS_ACTIONS
export type WebhookAction = keyof typeof WEBHOOK_ACTIONS
export type AuditAction = KeyAction | AccessAction | WebhookAction

export function isAuditAction(text: string): text is AuditAction {
  return Object.hasOwn(LABELS, text)
}

export const AUDIT_ACTIONS_EXPECTED = `one of ${Object.keys(LABELS).join(', ')}`

/** An action of a newer console on the same database has no label here. */
export function actionLabel(action: AuditAction): string {
  return LABELS[action] ?? action
}
