import { HtmlSafeString } from 'escape-html-template-tag'

export type Html = HtmlSafeString
/** What may stand in a page: text, which is escaped, or HTML that was made by `html` itself. */
export type Piece = string | number | Html | null | readonly Piece[]

/** A template in which every value is text unless it is HTML of ours; null is nothing, and a list is its parts in a row. */
export function html(parts: TemplateStringsArray, ...values: readonly Piece[]): Html {
  return new HtmlSafeString(parts, values.map(withoutNull))
}

function withoutNull(piece: Piece): Piece {
  if (piece === null) return ''
  return isList(piece) ? piece.map(withoutNull) : piece
}

/** The compiler does not see by itself that a list which cannot be changed is one. */
function isList(piece: Piece): piece is readonly Piece[] {
  return Array.isArray(piece)
}
