import { html as htmlTag, type SafeHtml } from '@remix-run/html-template'

export type Html = SafeHtml
/** Content of a page: text, which is escaped, or HTML made by `html`. */
export type Piece = string | number | Html | null | readonly Piece[]
type Interpolation = Parameters<typeof htmlTag>[1]

/**
 * A template tag that escapes every value but HTML made by itself. Null renders nothing, a list its items.
 * An attribute's value is always quoted: only `&`, `<`, `>` and quotes are escaped.
 */
export function html(parts: TemplateStringsArray, ...values: readonly Piece[]): Html {
  return htmlTag(parts, ...values.map(toInterpolation))
}

/** The library's type takes no readonly list. */
function toInterpolation(piece: Piece): Interpolation {
  return isList(piece) ? piece.map(toInterpolation) : piece
}

/** Array.isArray does not narrow readonly arrays. */
function isList(piece: Piece): piece is readonly Piece[] {
  return Array.isArray(piece)
}
