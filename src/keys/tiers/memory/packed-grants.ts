import type { KeyGrant } from '../../../domain/key-record.ts'
import type { PackedRows } from './packed-rows.ts'

/** Columns of a row that a grant takes: the first ones. */
const EXPIRES_AT = 0
const REVOKED_AT = 1
const VERSION = 2
const SCOPES = 3
export const GRANT_NUMBERS = 4
/** Lengths of the three texts, and their characters: an id and a workspace id of our own making, or a UUID, and a hint. */
export const GRANT_BYTES = 96
const LENGTHS = 3
/** More lists than a configuration has scopes for; a grant with one beyond them is kept as an object. */
const MAX_SCOPE_LISTS = 1_000
/** In the place of a revocation that was not. */
const NEVER = Number.NaN
const AS_OBJECT = -1

/** Grants in rows. What does not fit into one, as a workspace id of 128 characters, is kept beside them. */
export class PackedGrants {
  readonly #rows: PackedRows
  readonly #objects = new Map<number, KeyGrant>()
  readonly #scopeLists: (readonly string[])[] = []
  readonly #listNumbers = new Map<string, number>()

  constructor(rows: PackedRows) {
    this.#rows = rows
  }

  write(row: number, grant: KeyGrant): void {
    const rows = this.#rows
    const list = this.#numberOf(grant.scopes)
    const fits = list !== AS_OBJECT && this.#writeTexts(row, grant)
    rows.setNumber(row, SCOPES, fits ? list : AS_OBJECT)
    rows.setNumber(row, VERSION, grant.version)
    rows.setNumber(row, EXPIRES_AT, grant.expiresAtMs)
    rows.setNumber(row, REVOKED_AT, grant.revokedAtMs ?? NEVER)
    if (!fits) this.#objects.set(row, grant)
    else if (this.#objects.size > 0) this.#objects.delete(row)
  }

  read(row: number): KeyGrant {
    if (this.#rows.number(row, SCOPES) !== AS_OBJECT) return this.#readRow(row)
    const grant = this.#objects.get(row)
    // What is left in the row is of another key.
    if (grant === undefined) throw new Error('A grant that did not fit into its row is lost')
    return grant
  }

  version(row: number): number {
    return this.#rows.number(row, VERSION)
  }

  /** To be called before a row is removed. */
  forget(row: number): void {
    if (this.#objects.size > 0) this.#objects.delete(row)
  }

  clear(): void {
    this.#objects.clear()
  }

  #readRow(row: number): KeyGrant {
    const rows = this.#rows
    const bytes = rows.buffer
    const lengths = rows.bytesAt(row)
    const id = lengths + LENGTHS
    const workspaceId = id + (bytes[lengths] ?? 0)
    const hint = workspaceId + (bytes[lengths + 1] ?? 0)
    const revokedAtMs = rows.number(row, REVOKED_AT)
    return {
      id: bytes.toString('latin1', id, workspaceId),
      workspaceId: bytes.toString('latin1', workspaceId, hint),
      scopes: this.#scopeLists[rows.number(row, SCOPES)] ?? [],
      hint: bytes.toString('utf16le', hint, hint + (bytes[lengths + 2] ?? 0)),
      expiresAtMs: rows.number(row, EXPIRES_AT),
      revokedAtMs: Number.isNaN(revokedAtMs) ? null : revokedAtMs,
      version: rows.number(row, VERSION),
    }
  }

  /** Ids are of ASCII, as `decodeRecord` sees to; a hint may hold anything. @returns whether there was room for them */
  #writeTexts(row: number, { id, workspaceId, hint }: KeyGrant): boolean {
    if (LENGTHS + id.length + workspaceId.length + 2 * hint.length > GRANT_BYTES) return false
    const bytes = this.#rows.buffer
    let at = this.#rows.bytesAt(row)
    bytes[at++] = id.length
    bytes[at++] = workspaceId.length
    bytes[at++] = 2 * hint.length
    at += bytes.write(id, at, 'latin1')
    at += bytes.write(workspaceId, at, 'latin1')
    bytes.write(hint, at, 'utf16le')
    return true
  }

  /** Most keys share a few lists of scopes: one array for all that are equal. */
  #numberOf(scopes: readonly string[]): number {
    const name = scopes.join(' ')
    const known = this.#listNumbers.get(name)
    if (known !== undefined) return known
    if (this.#scopeLists.length === MAX_SCOPE_LISTS) return AS_OBJECT
    this.#listNumbers.set(name, this.#scopeLists.length)
    return this.#scopeLists.push(scopes) - 1
  }
}
