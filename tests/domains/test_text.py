"""Text: words, vocabularies, transforms, BLEU, files of this machine, an encoder."""

import io
import math

import pytest

import facula
from facula.text import datasets, models, transforms, vocab
from facula.text.data import bleu_score, get_tokenizer, ngrams_iterator


def test_words():
    tokenize = get_tokenizer("basic_english")
    assert tokenize('It\'s "A" Test, (really)!') == [
        "it",
        "'",
        "s",
        "a",
        "test",
        ",",
        "(",
        "really",
        ")",
        "!",
    ]
    assert get_tokenizer(None)("a b  c") == ["a", "b", "c"]
    assert get_tokenizer(list)("ab") == ["a", "b"]
    assert list(ngrams_iterator(["a", "b", "c"], 3)) == ["a", "b", "c", "a b", "b c", "a b c"]
    with pytest.raises(ValueError, match="tokenizer not supported"):
        get_tokenizer("nothing")
    with pytest.raises(ModuleNotFoundError, match="the library 'spacy' was required"):
        get_tokenizer("spacy")


def test_a_vocabulary_numbers_words():
    found = vocab.build_vocab_from_iterator(
        [["b", "a", "b"], ["c", "a", "b"]], specials=["<unk>"], max_tokens=3
    )
    assert found.get_itos() == ["<unk>", "b", "a"] and found.get_stoi()["a"] == 2
    with pytest.raises(RuntimeError, match="Token c not found"):
        found["c"]
    found.set_default_index(0)
    assert found(["a", "c"]) == [2, 0] and "c" not in found and len(found) == 3
    found.insert_token("z", 1)
    found.append_token("y")
    assert found.lookup_tokens([0, 1, 2, 4]) == ["<unk>", "z", "b", "y"]
    for call in (
        lambda: found.append_token("y"),
        lambda: found.insert_token("x", 9),
        lambda: found.lookup_token(9),
    ):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(RuntimeError, match="'a' twice"):
        vocab.Vocab(["a", "a"])


def test_transforms_lead_to_padded_batches():
    words = vocab.vocab({"a": 3, "b": 2, "c": 1}, min_freq=2, specials=["<pad>", "<bos>"])
    assert len(words) == 4
    chain = transforms.Sequential(
        transforms.VocabTransform(words),
        transforms.AddToken(1),
        transforms.Truncate(2),
        transforms.ToTensor(0),
    )
    assert chain([["a", "b"], []]).tolist() == [[1, 2], [1, 0]]
    assert transforms.PadTransform(4, 9)(facula.tensor([1, 2])).tolist() == [1, 2, 9, 9]
    assert transforms.LabelToIndex(["no", "yes"])(["yes", "no"]) == [1, 0]
    assert transforms.StrToIntTransform()([["1", "2"]]) == [[1, 2]]
    assert transforms.RegexTokenizer([(r"[,.]", " . ")])("a,b") == ["a", ".", "b"]
    with pytest.raises(ValueError, match="lists of one length"):
        transforms.ToTensor()([[1], [1, 2]])


def test_bleu_counts_common_runs():
    texts = [["My", "full", "pytorch", "test"], ["Another", "Sentence"]]
    references = [
        [["My", "full", "pytorch", "test"], ["Completely", "Different"]],
        [["No", "Match"]],
    ]
    assert bleu_score(texts, references) == pytest.approx(0.8408964276313782)
    assert bleu_score([["a", "b"]], [[["a", "b", "c"]]], 2, [0.5, 0.5]) == pytest.approx(
        math.exp(-0.5)
    )
    assert bleu_score([["a"]], [[["b"]]]) == 0.0
    with pytest.raises(ValueError, match="max_n"):
        bleu_score(texts, references, 3, [1.0])


def test_files(tmp_path):
    (tmp_path / "train.csv").write_text('"3","Title","Text, more"\n"1","A","B"\n')
    news = datasets.AG_NEWS(tmp_path)
    assert list(news) == [(3, "Title Text, more"), (1, "A B")] == list(news)
    (tmp_path / "train.csv").write_text('"3","Title"\n')
    with pytest.raises(RuntimeError, match=r"train\.csv, line 1"):
        list(datasets.AG_NEWS(tmp_path))
    (tmp_path / "train.tsv").write_text('sentence\tlabel\nan "odd one\t1\n')
    assert list(datasets.SST2(tmp_path)) == [('an "odd one', 1)]
    (tmp_path / "train.txt").write_text("He PRP B\nran VBD I\n\nNo DT B\n")
    assert list(datasets.CoNLL2000Chunking(tmp_path))[0] == [
        ["He", "ran"],
        ["PRP", "VBD"],
        ["B", "I"],
    ]
    for label in ("neg", "pos"):
        (tmp_path / "train" / label).mkdir(parents=True)
        (tmp_path / "train" / label / "1.txt").write_text(label)
    assert list(datasets.IMDB(tmp_path)) == [(1, "neg"), (2, "pos")]
    with pytest.raises(FileNotFoundError, match="wiki.test.tokens"):
        datasets.WikiText2(tmp_path, "test")


def test_vectors_of_words(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("cat 1 2\ndog 3 4\n")
    found = vocab.Vectors(path)
    assert found.get_vecs_by_tokens(["dog", "owl"]).tolist() == [[3, 4], [0, 0]]
    path.write_text("cat 1 2\ndog 3\n")
    with pytest.raises(RuntimeError, match="line 2"):
        vocab.Vectors(path)


def test_an_encoder_does_not_look_at_padding():
    facula.manual_seed(0)
    conf = models.RobertaEncoderConf(
        30, 16, 32, max_seq_len=12, num_attention_heads=2, num_encoder_layers=2
    )
    model = models.RobertaModel(conf, models.RobertaClassificationHead(3, 16)).eval()
    short, long = facula.tensor([[5, 6, 7]]), facula.tensor([[5, 6, 7, 1, 1]])
    assert model(short).shape == (1, 3)
    assert facula.allclose(model(short), model(long), atol=1e-5)
    assert "encoder.transformer.positional_embedding.embedding.weight" in model.state_dict()


@pytest.mark.parametrize(
    ("name", "file", "content", "rows"),
    [
        ("AmazonReviewFull", "train.csv", '"5","good","very"\n', [(5, "good very")]),
        ("AmazonReviewPolarity", "train.csv", '"1","a","b"\n', [(1, "a b")]),
        ("DBpedia", "train.csv", '14,"a","b"\n', [(14, "a b")]),
        ("SogouNews", "train.csv", '2,"a","b"\n', [(2, "a b")]),
        ("YahooAnswers", "train.csv", '3,"a","b","c"\n', [(3, "a b c")]),
        ("YelpReviewFull", "train.csv", '4,"a, b"\n', [(4, "a, b")]),
        ("YelpReviewPolarity", "train.csv", '2,"a"\n', [(2, "a")]),
        ("CoLA", "in_domain_train.tsv", "gj04\t1\t\tIt is.\n", [("gj04", 1, "It is.")]),
        ("WikiText103", "wiki.train.tokens", " = A = \n\n", [" = A = ", ""]),
        ("PennTreebank", "ptb.train.txt", " no it \n", ["no it"]),
        (
            "UDPOS",
            "en-ud-v2-train.txt",
            "a b\tX\tY\nc\tX\tZ\n\n",
            [[["a b", "c"], ["X", "X"], ["Y", "Z"]]],
        ),
    ],
)
def test_datasets_of_files(tmp_path, name, file, content, rows):
    (tmp_path / file).write_text(content)
    assert list(getattr(datasets, name)(tmp_path)) == rows
    with pytest.raises(FileNotFoundError, match="the dataset's file was required"):
        list(getattr(datasets, name)(tmp_path / "elsewhere"))


def test_files_in_two_languages_have_as_many_lines(tmp_path):
    (tmp_path / "train.de").write_text("ja\nnein\n")
    (tmp_path / "train.en").write_text("yes\nno\n")
    assert list(datasets.Multi30k(tmp_path)) == [("ja", "yes"), ("nein", "no")]
    assert list(datasets.Multi30k(tmp_path, language_pair=("en", "de")))[0] == ("yes", "ja")
    (tmp_path / "train.en").write_text("yes\n")
    with pytest.raises(RuntimeError, match=r"train\.en: 1"):
        list(datasets.Multi30k(tmp_path))


@pytest.mark.parametrize(
    ("name", "file", "content", "line"),
    [
        ("AG_NEWS", "train.csv", b'1,"a","b"\nx,"a","b"\n', "line 2"),
        ("AG_NEWS", "train.csv", b'1,"a","b"\n2,"a\xff","b"\n', "train.csv"),
        ("SST2", "train.tsv", b"sentence\tlabel\na\t\x00\n", "line 2"),
        ("CoLA", "in_domain_train.tsv", b"gj04\tone\t\ta\n", "line 1"),
        ("WikiText2", "wiki.train.tokens", b"a\xff\n", "wiki.train.tokens"),
        ("CoNLL2000Chunking", "train.txt", b"a b c\n\xff\n", "train.txt"),
        ("IMDB", "train/neg/1.txt", b"\xff", "1.txt"),
    ],
)
def test_damaged_files_are_named_with_the_line(tmp_path, name, file, content, line):
    for folder in ("train/neg", "train/pos"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(RuntimeError, match=rf"\[{name}\].*{line}"):
        list(getattr(datasets, name)(tmp_path))


def test_a_damaged_file_of_vectors_is_named(tmp_path):
    (tmp_path / "v.txt").write_bytes(b"a 1 2\nb\xff 1 2\n")
    with pytest.raises(RuntimeError, match=r"\[Vectors\] a file of text.*v\.txt"):
        vocab.Vectors(tmp_path / "v.txt")


def test_bleu_counts_words_that_hold_spaces_as_one():
    assert bleu_score([["a b c", "x"]], [[["a b c", "x"]]], max_n=2) == 1.0
    assert bleu_score([["a b", "c"]], [[["a", "b c"]]], max_n=1) == 0.0
    with pytest.raises(ValueError, match="a reference for each candidate was required: got none"):
        bleu_score([["a"]], [[]])
    with pytest.raises(ValueError, match="n-grams of at least one word"):
        bleu_score([["a"]], [[["a"]]], max_n=0)


@pytest.mark.parametrize("first", ["a 1 x\n", "a\n", "a 1 2\nb 1\n"])
def test_vectors_name_the_line_without_numbers(first, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text(first + "c 1 2\n")
    with pytest.raises(RuntimeError, match=r"vectors.txt, line \d"):
        vocab.Vectors(path)


def test_workers_share_the_rows_of_a_dataset(tmp_path):
    rows = [f'"{i % 4 + 1}","title {i}","text"' for i in range(20)]
    (tmp_path / "train.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "wiki.train.tokens").write_text("".join(f"line {i}\n" for i in range(20)))
    for dataset, wanted in (
        (datasets.AG_NEWS(tmp_path), [f"title {i} text" for i in range(20)]),
        (datasets.WikiText2(tmp_path), [f"line {i}" for i in range(20)]),
    ):
        alone = [row if isinstance(row, str) else row[1] for row in dataset]
        assert alone == wanted
        loader = facula.utils.data.DataLoader(dataset, batch_size=None, num_workers=2)
        shared = [row if isinstance(row, str) else row[1] for row in loader]
        assert sorted(shared) == sorted(wanted)
        mixed = facula.utils.data.DataLoader(dataset, batch_size=None, shuffle=True)
        found = [row if isinstance(row, str) else row[1] for row in mixed]
        assert sorted(found) == sorted(wanted) and found != wanted


def test_vocabularies_and_transforms_are_saved_whole():
    words = vocab.vocab({"a": 3, "b": 2}, specials=["<unk>"])
    words.set_default_index(0)
    file = io.BytesIO()
    facula.save(
        transforms.Sequential(transforms.VocabTransform(words), transforms.ToTensor()), file
    )
    file.seek(0)
    again = facula.load(file, weights_only=False)
    assert again(["b", "zz", "a"]).tolist() == [2, 0, 1]
