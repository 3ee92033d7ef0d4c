from trunkline.agents.site.traffic import Book, Traffic


def test_chunks_of_several_connections_are_counted_from_the_first_to_the_last_byte():
    book = Book()
    book.count(0, ("n2", "in"), 10, start_ns=7, end_ns=8)
    book.count(0, ("n2", "in"), 30, start_ns=3, end_ns=9)
    book.count(0, ("n2", "in"), 20, start_ns=5, end_ns=6)
    assert book.close(0) == {("n2", "in"): Traffic(60, 3, 3, 9)}
    assert book.close(0) == {}
