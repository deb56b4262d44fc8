import { HtmlSafeString } from 'escape-html-template-tag'

export type Html = HtmlSafeString
/** Content of a page: text, which is escaped, or HTML made by `html`. */
export type Piece = string | number | Html | null | readonly Piece[]

/** A template tag that escapes every value but HTML made by itself. Null renders nothing, a list its items. */
export function html(parts: TemplateStringsArray, ...values: readonly Piece[]): Html {
  return new HtmlSafeString(parts, values.map(withoutNull))
}

function withoutNull(piece: Piece): Piece {
  if (piece === null) return ''
  return isList(piece) ? piece.map(withoutNull) : piece
}

/** Array.isArray does not narrow readonly arrays. */
function isList(piece: Piece): piece is readonly Piece[] {
  return Array.isArray(piece)
}
