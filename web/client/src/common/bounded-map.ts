/** A map that drops its oldest entry beyond a limit, so that it does not grow in a page that stays open for days. */
export class BoundedMap<K, V> extends Map<K, V> {
  constructor(private readonly limit: number) {
    super();
  }

  override set(key: K, value: V): this {
    super.set(key, value);
    const [oldest] = this.keys();
    if (this.size > this.limit && oldest !== undefined) this.delete(oldest);
    return this;
  }
}
